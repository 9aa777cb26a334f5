"""From rollouts to gradients: returns, minibatches, learners."""
