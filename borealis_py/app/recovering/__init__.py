"""What surviving a crash costs an app's nodes, predicted before it runs: rates, a trial of each node, `recovery`."""
