"""The online agent: collect, train the model, train the policy, repeat."""
