"""The judgement: observations, histories, verdicts, forecasts."""
