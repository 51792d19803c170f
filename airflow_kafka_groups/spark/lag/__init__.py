"""What of a lag report needs Spark: owners by Java's regular expressions."""
