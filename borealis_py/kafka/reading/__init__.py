"""Parts of the reader."""
