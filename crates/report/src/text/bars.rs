// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Draws bars of block characters, whose parts differ in shape and not only in colour.

const FULL: &str = "█";
const EMPTY: &str = "░";

/// The number of `cells` for `part` of `whole`: at least one if the part is not zero, and at most
/// all but one if the part is smaller than the whole.
fn filled_cells(part: u64, whole: u64, cells: usize) -> usize {
    if whole == 0 || part == 0 {
        return 0;
    }
    let scaled = u128::from(part) * cells as u128 / u128::from(whole);
    let most = if part >= whole { cells } else { cells.saturating_sub(1) };
    usize::try_from(scaled).unwrap_or(cells).clamp(1.min(most), most)
}

/// A bar filled from the left.
pub(super) fn draw_bar(part: u64, whole: u64, cells: usize) -> String {
    let full = filled_cells(part, whole, cells);
    FULL.repeat(full) + &EMPTY.repeat(cells - full)
}

/// The number of cells for each of `parts` in a bar for `whole`. Borders are rounded instead of
/// widths, so that the cells of several parts add up correctly.
pub(super) fn split_cells(parts: &[u64], whole: u64, cells: usize) -> Vec<usize> {
    let whole = u128::from(whole.max(1));
    let border = |sum: u128| {
        let cell = (sum * cells as u128 + whole / 2) / whole;
        usize::try_from(cell).unwrap_or(cells).min(cells)
    };
    let mut sum = 0u128;
    let widths = parts.iter().map(|&part| {
        let from = border(sum);
        sum += u128::from(part);
        border(sum) - from
    });
    widths.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_little_shows_and_almost_full_is_not_full() {
        assert_eq!(draw_bar(0, 100, 4), "░░░░");
        assert_eq!(draw_bar(1, 1000, 4), "█░░░");
        assert_eq!(draw_bar(999, 1000, 4), "███░");
        assert_eq!(draw_bar(1000, 1000, 4), "████");
        assert_eq!(draw_bar(5, 0, 4), "░░░░");
    }

    proptest! {
        /// For any parts, even wrong ones, a bar never exceeds its cells, and parts that add up to
        /// the whole fill it.
        #[test]
        fn cells_add_up(parts in proptest::collection::vec(any::<u64>(), 0..8), cells in 1usize..99) {
            let sum: u128 = parts.iter().map(|&part| u128::from(part)).sum();
            let whole = u64::try_from(sum).unwrap_or(u64::MAX);
            let widths = split_cells(&parts, whole, cells);
            prop_assert_eq!(widths.iter().sum::<usize>(), if sum == 0 { 0 } else { cells });
            prop_assert!(split_cells(&parts, 3, cells).iter().sum::<usize>() <= cells);
        }
    }
}
