// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The help of `pagewise ledger`.

pub(super) const LEDGER: &str = "Print how often the gains that plans predicted came true on this machine, and every \
    measurement.\n\n\
    A step of a plan can state a predicted gain with its 95 % interval. After the plan is applied, each \
    `pagewise verify` measures the gain and adds a line to the file `ledger` in /var/lib/pagewise. A measured \
    value inside the interval is a hit. Of each prediction the latest measurement counts. Estimates and \
    predictions that follow from a formula of the kernel are counted separately. If /var/lib/pagewise can be read \
    only by root, so can the ledger.\n\n  \
    sudo pagewise verify                     measure the gains of all applied plans\n  \
    sudo pagewise ledger                     hit rates and measurements\n  \
    sudo pagewise ledger --json              the same with the files and values that were read";
