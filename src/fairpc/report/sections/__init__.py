"""One module per section of the page: facts of the audit in, paragraphs and pictures out."""
