"""The paper's tables and figures: one small recipe each."""
