//! How the rounds of a run are divided among the modes of a mixture.

/// A mixture of several networks, each trained in its share of the rounds: as much computation and as many bytes as one
/// network trained in all of them.
///
/// For the first `common_rounds` one body is trained. Then every mode goes on from it under a frozen head of its own, or,
/// without common rounds, from a start of its own; the modes take turns, a round each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modes {
    /// How many; 1 is a single network.
    pub count: usize,
    /// Rounds in which one body is trained for all.
    pub common_rounds: u64,
}

impl Modes {
    /// A single network.
    pub const ONE: Self = Self { count: 1, common_rounds: 0 };

    /// The mode that is trained in a round, counted from 1.
    #[must_use]
    pub const fn of_round(&self, round: u64) -> usize {
        match round.checked_sub(self.common_rounds + 1) {
            Some(turn) => (turn % self.count as u64) as usize,
            None => 0,
        }
    }

    /// How many rounds the mode of this round has had, this one and the common ones included.
    #[must_use]
    pub const fn rounds_of_mode(&self, round: u64) -> u64 {
        match round.checked_sub(self.common_rounds + 1) {
            Some(turn) => self.common_rounds + turn / self.count as u64 + 1,
            None => round,
        }
    }

    /// Whether all modes have one body after this round.
    #[must_use]
    pub const fn are_common_after(&self, round: u64) -> bool {
        self.count > 1 && round > 0 && round <= self.common_rounds
    }

    /// Which part of a client's data a mode sets aside, where the federation chooses something on such data: each mode its
    /// own, unless a common body has learned from what another mode sets aside.
    #[must_use]
    pub const fn part_set_aside(&self, mode: usize) -> usize {
        if self.common_rounds > 0 { 0 } else { mode }
    }

    /// Whether modes set different samples aside, so that a mode's choice is not the average's.
    #[must_use]
    pub const fn are_set_apart(&self) -> bool {
        self.count > 1 && self.common_rounds == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_take_turns_after_the_common_rounds() {
        let turns = |modes: Modes, rounds: u64| -> Vec<(usize, u64)> {
            (1..=rounds).map(|round| (modes.of_round(round), modes.rounds_of_mode(round))).collect()
        };
        assert_eq!(turns(Modes::ONE, 3), [(0, 1), (0, 2), (0, 3)]);
        let three = Modes { count: 3, common_rounds: 0 };
        assert_eq!(turns(three, 5), [(0, 1), (1, 1), (2, 1), (0, 2), (1, 2)]);
        let common = Modes { count: 2, common_rounds: 2 };
        assert_eq!(turns(common, 6), [(0, 1), (0, 2), (0, 3), (1, 3), (0, 4), (1, 4)]);
        let shared: Vec<u64> = (0..=4).filter(|&round| common.are_common_after(round)).collect();
        assert_eq!(shared, [1, 2]);
        assert!((1..=4).all(|round| !three.are_common_after(round) && !Modes::ONE.are_common_after(round)));
        assert_eq!([0, 2].map(|mode| three.part_set_aside(mode)), [0, 2]);
        assert_eq!([0, 1].map(|mode| common.part_set_aside(mode)), [0, 0]);
        assert_eq!([three, common, Modes::ONE].map(|modes| modes.are_set_apart()), [true, false, false]);
    }
}
