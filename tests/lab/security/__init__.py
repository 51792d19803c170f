"""What brokers check: certificates, Kerberos, tokens, access rights."""
