"""State machines that Hypothesis drives: two back ends side by side, or one back end next to a model."""
