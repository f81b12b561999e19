//! Chaos: several processes on real servers, and a check of what they did.
