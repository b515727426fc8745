"""Values in, figures and pages out. Knows nothing of SQL, Ray or HTTP."""
