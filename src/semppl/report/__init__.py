"""One page about a run, or about several: made from their files alone, so torch is never imported here."""
