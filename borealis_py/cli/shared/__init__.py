"""What commands share: options, the app that they open, tables, messages."""
