"""What one should know about the COMPAS tables."""

from __future__ import annotations

from fairpc.datasets import bundled
from fairpc.datasets.compas_source import FILE_NAME, REMOTE
from fairpc.datasets.record import Notes, Provenance

_ARTICLE = (
    "J. Angwin, J. Larson, S. Mattu and L. Kirchner, Machine Bias, ProPublica, 23 May 2016; "
    "J. Larson, S. Mattu, L. Kirchner and J. Angwin, How We Analyzed the COMPAS Recidivism "
    "Algorithm, ProPublica, 23 May 2016"
)
_PAGE = "https://github.com/propublica/compas-analysis"

TWO_YEAR_PROVENANCE = Provenance(
    source="ProPublica, compas-analysis, compas-scores-two-years.csv; names, birth dates and case "
    "numbers taken out, repeated columns dropped",
    url=_PAGE,
    licence="published by ProPublica for re-use with attribution; made from public records",
    attribution=_ARTICLE,
    files=(("compas-scores-two-years.csv", bundled.SHA256["compas-scores-two-years.csv"]),),
)
SCORES_PROVENANCE = Provenance(
    source=f"ProPublica, compas-analysis, {FILE_NAME}; names are not read",
    url=_PAGE,
    licence="published by ProPublica; made from public records; not distributed with fairpc",
    attribution=_ARTICLE,
    files=((FILE_NAME, REMOTE.sha256),),
)

_TWO_YEAR_COLUMNS = {
    "id": "a number per person",
    "compas_screening_date": "day of the screening",
    "sex": "Female or Male",
    "age": "in years",
    "age_cat": "the same in three classes",
    "race": "as recorded by the county; the sensitive attribute",
    "juv_fel_count": "juvenile felonies",
    "decile_score": "COMPAS risk of recidivism, 1 to 10",
    "juv_misd_count": "juvenile misdemeanours",
    "juv_other_count": "other juvenile offences",
    "priors_count": "earlier charges",
    "days_b_screening_arrest": "days between arrest and screening",
    "c_jail_in": "into jail, on the charge that led to the screening",
    "c_jail_out": "out of jail",
    "c_offense_date": "day of the offence",
    "c_arrest_date": "day of the arrest",
    "c_days_from_compas": "days between the charge and the screening",
    "c_charge_degree": "F = felony, M = misdemeanour",
    "c_charge_desc": "the charge in words, 437 of them",
    "is_recid": "charged again at any time; after the screening",
    "r_charge_degree": "of the new charge; after the screening",
    "r_days_from_arrest": "of the new charge; after the screening",
    "r_offense_date": "of the new charge; after the screening",
    "r_charge_desc": "of the new charge; after the screening",
    "r_jail_in": "of the new charge; after the screening",
    "r_jail_out": "of the new charge; after the screening",
    "violent_recid": "empty in every row",
    "is_violent_recid": "charged again with a violent offence; after the screening",
    "vr_charge_degree": "of the violent charge; after the screening",
    "vr_offense_date": "of the violent charge; after the screening",
    "vr_charge_desc": "of the violent charge; after the screening",
    "type_of_assessment": "the same in every row",
    "score_text": "decile_score in words: Low (1-4), Medium (5-7), High (8-10)",
    "screening_date": "day of the screening",
    "v_type_of_assessment": "the same in every row",
    "v_decile_score": "COMPAS risk of violence, 1 to 10",
    "v_score_text": "the same in words",
    "v_screening_date": "day of the screening",
    "in_custody": "a later stay in custody; after the screening",
    "out_custody": "end of that stay; after the screening",
    "start": "of the time at risk, in days; after the screening",
    "end": "of the time at risk, in days; after the screening",
    "event": "whether the time at risk ended with a charge; after the screening",
    "two_year_recid": "the label: charged again within two years (1) or not (0)",
}

TWO_YEAR_NOTES = Notes(
    "7,214 people screened with COMPAS in Broward County, 2013 and 2014, with what happened in "
    "the two years after. The label says whether a person was charged again; 0 is favourable. "
    "The sensitive attribute is race, in six groups. X has what was known at the screening; the "
    "scores and everything later are in the frame only.",
    _TWO_YEAR_COLUMNS,
    (
        "Columns about the time after the screening (r_…, vr_…, is_recid, start, end, event, "
        "in_custody, …) contain the answer.",
        "A new charge is not a new offence: the label measures policing as well as conduct.",
        "People charged again were kept beyond the end of the two-year window, the others were "
        "not, so the rate of the label (.45) is too high (M. Barenstein, ProPublica's COMPAS Data "
        "Revisited, 2019).",
        "ProPublica's own analysis leaves out people whose charge is more than 30 days from the "
        "screening: 6,172 remain. All 7,214 are here.",
        "Asian (32) and Native American (18) are too few for rates of their own.",
    ),
)

_SCORE_COLUMNS = {
    "Person_ID": "a number per person; 18,610 people have 20,281 assessments",
    "AssessmentID": "a number per assessment",
    "Case_ID": "a number per case",
    "Agency_Text": "which agency asked",
    "Sex_Code_Text": "Female or Male",
    "Ethnic_Code_Text": "as recorded by the county, two spellings merged; the sensitive attribute",
    "ScaleSet_ID": "which set of questions",
    "ScaleSet": "the same in words",
    "Language": "of the interview",
    "LegalStatus": "stage of the case",
    "CustodyStatus": "where the person is",
    "MaritalStatus": "marital status",
    "Screening_Date": "day of the screening",
    "RecSupervisionLevel": "recommended supervision, 1 to 4; follows from the scores",
    "RecSupervisionLevelText": "the same in words; follows from the scores",
    "Scale_ID": "which score",
    "RawScore": "of the chosen scale",
    "DecileScore": "the same as 1 to 10",
    "ScoreText": "the same as Low, Medium or High",
    "AssessmentType": "New, or Copy of an earlier one",
    "Age": "completed years on the day of the screening",
    "Risk": "the label: High or not High",
}

RAW_NOTES = Notes(
    "Assessments of people in Broward County, 2013 and 2014, one row each, with their score on "
    "one scale; assessments without a score on it are left out. The label says whether the score "
    "is High; 'not High' is favourable. The sensitive attribute is the recorded ethnicity. Ages "
    "are those on the day of the screening. Fold by person.",
    _SCORE_COLUMNS,
    (
        "Some people were assessed more than once (20,245 assessments of 18,580 people have a "
        "score of recidivism): folds that cut through persons leak.",
        "The file has each assessment three times, once per scale: rows of the file are not "
        "independent. Here one scale is kept.",
        "RecSupervisionLevel is computed from the scores: as a feature it contains the answer, "
        "and is not in X.",
        "Birth years have two digits: read as 20xx they make people of 46 and older unborn.",
        "The label is another algorithm's output, not what anybody did.",
    ),
)

PAPER_NOTES = Notes(
    "48,834 scores as 6 binary features, ethnicity and a binary label, exactly as binarised for "
    "the paper. Label 1 = not High, Ethnic_Code_Text_ 1 = not Caucasian (68 %).",
    {
        "CustodyStatus_": "1 = not in jail",
        "LegalStatus_": "1 = not after sentence",
        "RecSupervisionLevel_": "1 = recommended supervision of level 3 or 4",
        "Ethnic_Code_Text_": "1 = not Caucasian; the sensitive attribute",
        "MaritalStatus_": "1 = neither married nor with a significant other",
        "Age": "1 = above 30 on 29 August 2018",
        "ScoreText_": "1 = the score is not High; the label",
        "Sex_": "1 = female",
    },
    (
        "Each assessment appears up to three times, once per scale: a split by rows leaks. "
        "persons numbers the people.",
        "Two-digit birth years below 68 were read as 20xx, which drops 19 % of the rows: everyone "
        "born before 1968.",
        "Age is that of 29 August 2018, four to five years after the screening.",
        "ScoreText_ = 1 means not High, with a base rate of .875: an accuracy of .88 means "
        "nothing.",
        "RecSupervisionLevel_ is computed from the scores, and contains part of the answer.",
    ),
)
