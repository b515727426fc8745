"""Update rules, each over the parameters that it moves; `workers.optim` deals them out."""
