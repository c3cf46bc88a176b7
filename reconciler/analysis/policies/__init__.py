"""What each placement policy would have done, and what that would have cost the demand."""
