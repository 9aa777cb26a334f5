"""Networks of DreamerV3: encoder, recurrent state-space model, decoder, heads, actor and critic."""
