//! Times in which something stood still, as their starts and ends.

use crate::history::Micros;

/// A start and an end.
pub(crate) type Stall = (Micros, Micros);

/// How much of the time `within` is in these stalls, which are in the order of their starts and may overlap.
pub(crate) fn time_within(stalls: &[Stall], within: Stall) -> Micros {
    let (mut sum, mut counted_to) = (0, within.0);
    for (start, end) in stalls {
        let (start, end) = ((*start).max(counted_to), (*end).min(within.1));
        if start < end {
            sum += end - start;
            counted_to = end;
        }
    }
    sum
}

/// The stalls that together last for `least` within the time `window` from the start of the first of them.
pub(crate) fn long(mut stalls: Vec<Stall>, least: Micros, window: Micros) -> Vec<Stall> {
    stalls.sort_unstable();
    let long = stalls.iter().enumerate().filter_map(|(place, (start, _))| {
        let to = start + window;
        let following = &stalls[place..];
        let near = &following[..following.partition_point(|(start, _)| *start < to)];
        let end = near.iter().map(|(_, end)| *end).max()?;
        (time_within(near, (*start, to)) >= least).then_some((*start, end))
    });
    long.collect()
}
