"""The journal records all inputs of decisions in order; replay makes the decisions again."""
