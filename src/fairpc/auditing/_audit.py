"""An audit: the record of it, and the steps from a model and a table to that record.

A section is a field of :class:`Audit` and a step that computes it; its module shows it by the same
name.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from html import escape
from typing import Any, Final

import numpy.typing as npt

from fairpc.auditing import (
    _agreement as agreement,
    _appendix as appendix,
    _decidable as decidable,
    _error_rates as errors,
    _gaps as gaps,
    _mechanism as mechanism,
    _parity as parities,
    _review as reviews,
    _review_plan as plans,
    _strata as within,
    _subgroups as subgroups,
    _table_facts as tables,
    _tested as tested,
    _verdict as verdicts,
)
from fairpc.auditing._given_decisions import GivenDecisions, given_decisions, is_estimator
from fairpc.auditing._job import (
    MAX_TEST_ROWS,
    AuditSettings,
    AuditStep,
    Classifier,
    Job,
    ReadTable,
    read_table,
)
from fairpc.auditing._page import model_card, render
from fairpc.core import (
    AnyPath,
    AuditError,
    TableWarning,
    serialise,
    without_few,
    write_atomically,
)
from fairpc.data import GivenNames, ReadingProgress, is_source
from fairpc.models import (
    Disclosure,
    FittedDecisions,
    Report,
    Reviewed,
    check_not_dask,
    disclosure,
)

FORMAT: Final = "fairpc audit"
VERSION: Final = 3

_ABOUT: Final = ("sensitive_features", "sample_weight", "clusters")
_OF_DECISIONS: Final = ("scores", "positive", "decision_positive", "given")


@dataclass(frozen=True, eq=False)
class Audit:
    """Facts about a model, or decisions of anybody, in the order in which the page shows them.

    A section that these rows or this model have no answer for is None; ``left_out`` says why,
    by its name, or by "section.part" where only a part is lacking.

    Attributes:
        verdict: the main findings in words; a rejection of the assumptions comes first.
        review: what reviewed rows say of all; None where none were given.
        review_plan: how well rates would be known after a review; None after one.
        data: the rows, the groups, what is missing.
        labels: how far apart the groups are in the recorded labels.
        mechanism: the range of P(D | Df, S) and of altered labels, then the point.
        decidable: what the data can and cannot decide.
        strata: parity within strata of the model.
        parity: gaps of scores and decisions between groups, under the model and on these rows.
        group_hidden: decisions of the model where the group may not be used.
        error_rates: rates of decisions by group against the fair decision, as ranges.
        factors: gaps of decisions between people who are alike in legitimate factors.
        subgroups: without a circuit, whose groups are decided farthest apart in the rows.
        group_metrics: agreement with the recorded label, by group.
        provenance: hashes, versions, settings, date.
        left_out: section or part -> why it is not there.
        disclosure: what the model holds of the people in its training table; for the card.
    """

    verdict: verdicts.Verdict
    review: reviews.ReviewFacts | None = field(default=None, kw_only=True)
    review_plan: plans.ReviewPlan | None = field(default=None, kw_only=True)
    data: tables.TableFacts
    labels: gaps.LabelDisparity | None
    mechanism: mechanism.MechanismFacts | None
    decidable: decidable.Decidable
    strata: within.OwnStrata | None
    parity: parities.ParityFacts | None
    group_hidden: parities.HiddenGroup | None = field(default=None, kw_only=True)
    error_rates: errors.ErrorFacts | None = field(default=None, kw_only=True)
    factors: within.FactorGaps | None = field(default=None, kw_only=True)
    subgroups: subgroups.SubgroupFacts | None = field(default=None, kw_only=True)
    group_metrics: agreement.MetricFacts | None
    provenance: appendix.AuditProvenance
    left_out: Mapping[str, str]
    disclosure: Disclosure | None = field(default=None, kw_only=True)

    def to_dict(self) -> dict[str, Any]:
        """All of it as dicts, lists, text and numbers that JSON can hold; None for no number."""
        sections = {each.name: serialise(getattr(self, each.name)) for each in fields(self)}
        return {"format": FORMAT, "version": VERSION, **sections}

    def to_json(self, *, indent: int | None = None) -> str:
        """:meth:`to_dict` as JSON text."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False, ensure_ascii=False)

    def save(self, path: AnyPath) -> None:
        """Write the page, one HTML file that needs nothing else, whole or not at all."""
        write_atomically(path, render(self).encode())

    def card(self) -> str:
        """A model card in Markdown, with YAML front matter."""
        return model_card(self)

    def __str__(self) -> str:
        verdict = self.verdict
        return "\n".join((*verdict.sentences, *verdict.to_do, verdict.disclaimer))

    def _repr_html_(self) -> str:
        """The page in a frame of its own, so that its style stays out of a notebook."""
        return (
            '<iframe sandbox="allow-scripts" style="width:100%;height:40em;border:1px solid #999" '
            f'title="fairpc audit" srcdoc="{escape(render(self), quote=True)}"></iframe>'
        )


def audit(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    sensitive_features: Any = None,
    sample_weight: npt.ArrayLike | None = None,
    clusters: npt.ArrayLike | None = None,
    level: float = 0.95,
    random_state: int = 0,
    n_seeds: int | None = None,
    classifier: Classifier = "best",
    max_test_rows: int | None = MAX_TEST_ROWS,
    max_memory: int | str | None = None,
    reviewed: Reviewed | None = None,
    scores: npt.ArrayLike | None = None,
    positive: Any = None,
    decision_positive: Any = None,
    given: str | Sequence[str] = (),
    names: GivenNames | None = None,
    progress: Report | None = None,
) -> Audit:
    """Facts about a fitted model on a table: its training rows, or any others.

    Or about decisions of anybody, which need no model of ours: those of a frozen estimator, or a
    column of them, on rows that did not train whatever decides.

    Args:
        model: a fitted FairPC, LatentDecision, NLatPC, LatNB or TwoNB. Or any estimator with
            ``predict`` or ``predict_proba``; or decisions, one per row: classes of ``y``, 1 and 0,
            or two others of which ``decision_positive`` names the favourable one. Then X is a table
            in memory, and y and ``sensitive_features`` are needed.
        X: table; missing values are allowed. Or a table that is read in batches, however long:
            the path of a Parquet, CSV or Arrow file, a folder, a glob, a polars lazy frame. For a
            LatentDecision its rows are kept in memory.
        y: recorded labels, some or all of which may be missing; then less can be said. The name
            of a column where X is read in batches, as is then ``sample_weight``.
        sensitive_features: groups given apart, as at fit.
        sample_weight: how many people a row stands for.
        clusters: who each row is about, where persons repeat.
        level: of the intervals.
        random_state: of samples, folds and the splits of the test.
        n_seeds: ways of splitting in the test of the assumptions; None: the held-out rates that
            the fit kept, if these are its rows and ``clusters`` is not given; else 11, or down to 1
            where many rows differ, or groups are many.
        classifier: what ranks the rows in that test: "best", the better of two on inner folds, as
            ``test_assumptions`` does by itself; or one of them, "logistic", which takes less
            than half of the time, or "boosting".
        max_test_rows: where more rows than this differ in X, the test of the assumptions uses a
            random sample of this size, and says so; None for all rows.
        max_memory: bytes, or text like "4GB": where the distinct rows of a streamed table, or for a
            LatentDecision its rows, take more, a random sample of them is audited, which is said.
            Half of the machine's memory by default; give what the fit was given to have its rows
            known again.
        reviewed: what people said of rows that were drawn for review, for a table in memory.
        scores: beside decisions, the scores that they came from, 0 to 1: adds gaps of mean scores
            and calibration against the fair decision.
        positive: beside decisions, the favourable class of ``y``; the last if None.
        decision_positive: the favourable decision, where decisions have other values than ``y``.
        given: beside decisions, legitimate factors, columns of X: gaps are also shown between
            people who are alike in them. A model of ours has its own.
        names: what classes and groups are called in the report, by column and value:
            ``{"deny": {"yes": "refused", "no": "approved"}, "sex": {"F": "women"}}``. A text, or
            the value "", names the column itself: ``{"deny": "Loan decisions"}``.
        progress: called with a :class:`fairpc.models.Progress` before each step.
    """
    options = locals()  # first, while it holds the arguments alone
    settings = AuditSettings(
        **{option.name: options[option.name] for option in fields(AuditSettings)}
    )
    if reviewed is not None and is_source(X):
        raise AuditError("reviewed rows are known by their place: give the table in memory")
    of_decisions = {name: options[name] for name in _OF_DECISIONS}
    if _are_decisions(model):
        about = {name: options[name] for name in ("sensitive_features", "sample_weight")}
        model = given_decisions(model, X, y, **about, **of_decisions, names=names)
    elif isinstance(model, GivenDecisions):
        pass  # they hold what goes with them
    elif named := [n for n, v in of_decisions.items() if v is not None and (n != "given" or v)]:
        raise AuditError(f"{named[0]} goes with decisions, and a model of fairpc has its own")
    job = Job(model, settings, progress, STEP_WORDS, reviewed, names)
    _run(job, X, y, **{name: options[name] for name in _ABOUT})
    job.report_step(_LAST)
    found = job.results | {name: compute(job) for name, compute in AT_ONCE.items()}
    found["verdict"] = verdicts.UNSAID
    whole = Audit(**{section.name: found[section.name] for section in fields(Audit)})
    return without_few(replace(whole, verdict=verdicts.verdict(job, whole)), job.min_cell)


def group_gaps(
    model: FittedDecisions | GivenDecisions,
    X: Any,
    y: Any = None,
    *,
    sensitive_features: Any = None,
    sample_weight: npt.ArrayLike | None = None,
    clusters: npt.ArrayLike | None = None,
    level: float = 0.95,
    random_state: int = 0,
    max_memory: int | str | None = None,
    progress: Report | None = None,
) -> parities.ParityFacts:
    """The gaps between groups that an audit finds in a table, in a fraction of its time.

    The arguments are those of :func:`audit`. An AuditError says why groups cannot be compared.
    """
    settings = AuditSettings(level, random_state, max_memory=max_memory)
    words = {name: STEP_WORDS[name] for name in (_FIRST, "data", "labels", "parity")}
    about = {"sensitive_features": sensitive_features, "sample_weight": sample_weight}
    job = Job(model, settings, progress, words)
    _run(job, X, y, **about, clusters=clusters)
    facts: parities.ParityFacts | None = job.results["parity"]
    if facts is None:
        raise AuditError(job.left_out["parity"])
    return facts


def _run(job: Job, X: Any, y: Any, **about: Any) -> None:
    """Read and score the table, then take the steps of the job; ``about`` is for ``read_table``."""
    if not job.decisions:
        _check_model(job.model)
    check_not_dask(X)

    def read(job: Job) -> ReadTable:
        def watch(now: ReadingProgress) -> None:
            job.report_step(_FIRST, f": {now.line}")

        least = job.min_cell if job.reviewed is None else 1
        table = read_table(job.subject, X, y, job.settings, watch=watch, min_cell=least, **about)
        table = table.without_few(least)
        return table.called(job.names)

    job.run(AuditStep(_FIRST, STEP_WORDS[_FIRST], read, needed=True, of_model=False))
    with warnings.catch_warnings():
        # What is odd about the rows was said when they were read.
        warnings.simplefilter("ignore", TableWarning)
        for step in STEPS:
            if step.name in job.steps:
                job.run(step)


def _are_decisions(model: object) -> bool:
    """Whether this is not a model of ours, but decides or was decided."""
    if isinstance(model, FittedDecisions | GivenDecisions | str | type | None):
        return False
    return is_estimator(model) or (hasattr(model, "__len__") and not isinstance(model, Mapping))


def _check_model(model: object) -> None:
    if not isinstance(model, FittedDecisions):
        raise AuditError(
            f"the model is a {type(model).__name__}: audit takes a fitted FairPC, LatentDecision, "
            "NLatPC, LatNB or TwoNB, an estimator with predict, or one decision per row"
        )
    if not hasattr(model, "coding_"):
        raise AuditError(f"this {type(model).__name__} is not fitted: call fit first")


STEPS: Final = (
    AuditStep("data", "rows and groups", tables.table_facts, needed=True, of_model=False),
    AuditStep("labels", "gaps in labels", gaps.label_disparity, of_model=False),
    AuditStep("decidable.test", "test of the assumptions", tested.assumption_test, of_model=False),
    AuditStep("strata.test", "test within strata", tested.test_within_strata),
    AuditStep("mechanism", "mechanism", mechanism.mechanism_facts),
    AuditStep("decidable.identified", "what the labels leave possible", decidable.identified_facts),
    AuditStep("strata.gaps", "gaps within strata", within.gap_parts),
    AuditStep("strata", "strata", within.strata_facts),
    AuditStep("parity", "gaps in scores and decisions", parities.parity_facts, of_model=False),
    AuditStep("group_hidden", "decisions without the group", parities.hidden_group),
    AuditStep("error_rates", "error rates", errors.error_facts, of_model=False),
    AuditStep("review", "what the review showed", reviews.review_facts, of_model=False),
    AuditStep("review_plan", "what a review would show", plans.review_plan, of_model=False),
    AuditStep("factors", "gaps within factors", within.factor_gaps, of_model=False),
    AuditStep("subgroups", "subgroups in the rows", subgroups.subgroup_facts, of_model=False),
    AuditStep("group_metrics", "agreement with labels", agreement.group_metrics, of_model=False),
)
"""What takes time or may have no answer, in order."""

_FIRST, _LAST = "scores", "the rest"
STEP_WORDS: Final = {
    _FIRST: "reading the table",
    **{step.name: step.words for step in STEPS},
    _LAST: "verdict",
}

AT_ONCE: Final[Mapping[str, Callable[[Job], Any]]] = {
    "decidable": decidable.decidable_facts,
    "provenance": appendix.provenance,
    "disclosure": lambda job: None if job.decisions else disclosure(job.model),
    "left_out": lambda job: job.left_out,
}
"""What is there at once when the steps are done: each has an answer for every model."""
