"""The charts of the report, as inline SVG: drawn without scripts, in the page's colours, sharp on paper and phones."""
