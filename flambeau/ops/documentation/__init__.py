"""What `help(torch.softmax)` says beside an operator's own text: arguments, results, errors."""
