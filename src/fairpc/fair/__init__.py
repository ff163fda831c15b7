"""The paper's four distributions on rows of codes: structure, EM, exact queries."""
