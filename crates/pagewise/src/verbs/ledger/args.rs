// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The help of `pagewise ledger`, the former name of `pagewise verify --history`.

pub(super) const LEDGER: &str = "Print in how many cases the gain that a plan predicted came true on this \
    machine, and list all measured gains.\n\n\
    A step of a plan can state a predicted gain with a 95 % interval. After the plan is applied, each \
    `pagewise verify` measures the gain and adds a line to the ledger (the file `ledger` in \
    /var/lib/pagewise). If the measured gain is inside the interval, the prediction is a hit. If a gain was \
    measured several times, only the latest measurement counts. Two kinds of predictions are counted \
    separately: estimates, which follow from measurements, and exact predictions, which follow from a \
    formula in the kernel (such as the one for watermarks). If only root can read /var/lib/pagewise, \
    `pagewise verify --history` needs root.\n\n  \
    sudo pagewise verify                     measure the gains of all applied plans\n  \
    sudo pagewise verify --history           print hit rates and measured gains\n  \
    sudo pagewise verify --history --json    the same as JSON, with the files and values that verify read";
