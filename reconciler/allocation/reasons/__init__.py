"""Why a claim is pending: reasons, explanations and remedies, as values."""
