"""The paper's experiments: one module per table or figure, and the runs that they share."""
