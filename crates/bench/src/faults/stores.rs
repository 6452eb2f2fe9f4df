// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Borrows the stores to measure from a [`Lender`], some for all rounds, and switches on a single
//! store at a time.
//!
//! For all rounds, a zram device is borrowed for each algorithm, and one swap area behind zswap for
//! all of its algorithms. zswap itself is global to the host: it is on only while one of its
//! algorithms is measured, and off while a zram device is measured.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pagewise_model::lend::{
    KnobSetting, Lender, LoanId, SwapArea, SwapFile, SwapSpec, ZramDevice, ZramSpec, ZswapSpec,
};
use pagewise_model::{Bytes, Compressor, Refusal, StoreKind, SwapStore};
use pagewise_observe::{HostGauges, HostRoot};

use super::spec::FaultSpec;
use super::task::Pool;

/// Name of a store, such as `lz4` or `zswap lz4`.
pub(super) fn label(store: &SwapStore) -> String {
    match store.kind {
        StoreKind::Zram => store.compressor.to_string(),
        StoreKind::Zswap => format!("zswap {}", store.compressor),
    }
}

/// A borrowed store that can be switched on as swap.
#[derive(Debug, PartialEq)]
pub(super) struct LentStore {
    /// Index of the store in [`FaultSpec::stores`].
    pub(super) number: usize,
    pub(super) pool: Pool,
    area: PathBuf,
    zswap: Option<ZswapSpec>,
}

/// The devices and areas that are borrowed for all rounds.
#[derive(Debug, Default)]
pub(super) struct LentStores {
    pub(super) stores: Vec<LentStore>,
    /// Whether a zram device is behind zswap.
    pub(super) is_zswap_on_zram: bool,
    /// Names of the stores that could not be borrowed, each with the reason.
    pub(super) refused: Vec<(String, String)>,
    /// What was borrowed, each with its name, in the order of borrowing.
    pub(super) loans: Vec<(String, LoanId)>,
}

/// Borrows what all stores need; stores that the lender refuses are left out.
pub(super) fn borrow_stores(lender: &mut dyn Lender, spec: &FaultSpec) -> LentStores {
    let mut lent = LentStores::default();
    for (number, store) in spec.stores.iter().enumerate() {
        if store.kind == StoreKind::Zram {
            let compressor = Some(store.compressor.clone());
            match lender.lend_zram(&ZramSpec { compressor, ..ZramSpec::new(spec.disksize) }) {
                Ok(ZramDevice { loan, number: device, device: area, .. }) => {
                    let pool = Pool::Zram(device);
                    lent.stores.push(LentStore { number, pool, area, zswap: None });
                    lent.loans.push((label(store), loan));
                }
                Err(refused) => lent.refused.push((label(store), refused.to_string())),
            }
        }
    }
    let offered = borrow_zswap_if_offered(lender, spec, &mut lent.refused);
    if !offered.is_empty() {
        match borrow_area(lender, spec, &mut lent.refused) {
            Ok((area, loan, is_zram)) => {
                let stores = offered.into_iter().map(|(number, zswap)| LentStore {
                    number,
                    pool: Pool::Zswap,
                    area: area.clone(),
                    zswap: Some(zswap),
                });
                lent.stores.extend(stores);
                lent.is_zswap_on_zram = is_zram;
                lent.loans.push(("the swap area behind zswap".to_owned(), loan));
            }
            Err(refused) => lent.refused.push(("zswap".to_owned(), refused.to_string())),
        }
    }
    lent
}

/// The algorithms that this kernel's zswap accepts, found by setting each of them once. A reason
/// that applies to several algorithms is reported once.
fn borrow_zswap_if_offered(
    lender: &mut dyn Lender,
    spec: &FaultSpec,
    refused: &mut Vec<(String, String)>,
) -> Vec<(usize, ZswapSpec)> {
    let (mut offered, mut reasons) = (Vec::new(), BTreeMap::<String, Vec<String>>::new());
    for (number, store) in spec.stores.iter().enumerate() {
        if store.kind != StoreKind::Zswap {
            continue;
        }
        match try_zswap(lender, &store.compressor) {
            Ok(zswap) => offered.push((number, zswap)),
            Err(why) => reasons.entry(why).or_default().push(store.compressor.to_string()),
        }
    }
    refused
        .extend(reasons.into_iter().map(|(why, who)| (format!("zswap {}", who.join(", ")), why)));
    offered
}

fn try_zswap(lender: &mut dyn Lender, compressor: &Compressor) -> Result<ZswapSpec, String> {
    if compressor.level.is_some() {
        return Err("zswap has no compression levels".to_owned());
    }
    let spec = ZswapSpec::new(compressor.algorithm.as_str());
    let loans = lender.lend_zswap(&spec).map_err(|refused| refused.why)?;
    return_loans(lender, loans).map_err(|refused| refused.to_string())?;
    Ok(spec)
}

/// Borrows the swap area behind zswap; also returns whether that is a zram device.
fn borrow_area(
    lender: &mut dyn Lender,
    spec: &FaultSpec,
    refused: &mut Vec<(String, String)>,
) -> Result<(PathBuf, LoanId, bool), Refusal> {
    if let Some(folder) = &spec.zswap_folder {
        match borrow_file(lender, folder, spec.disksize)? {
            Ok(SwapFile { path, loan }) => return Ok((path, loan, false)),
            Err(why) => {
                let what = "a file behind zswap (a zram device takes its place)";
                refused.push((what.to_owned(), why.why));
            }
        }
    }
    let ZramDevice { device, loan, .. } = lender.lend_zram(&ZramSpec::new(spec.disksize))?;
    Ok((device, loan, true))
}

/// Borrows a swap file, or returns why that is not possible. Whether a file system can hold swap is
/// known only after swapon.
///
/// # Errors
/// If the file of a failed attempt cannot be returned.
fn borrow_file(
    lender: &mut dyn Lender,
    folder: &Path,
    size: Bytes,
) -> Result<Result<SwapFile, Refusal>, Refusal> {
    let file = match lender.lend_swap_file(folder, size) {
        Ok(file) => file,
        Err(refused) => return Ok(Err(refused)),
    };
    match swap_on(lender, &file.path) {
        Ok(loan) => {
            lender.return_loan(loan)?;
            Ok(Ok(file))
        }
        Err(refused) => {
            lender.return_loan(file.loan)?;
            Ok(Err(refused))
        }
    }
}

fn swap_on(lender: &mut dyn Lender, area: &Path) -> Result<LoanId, Refusal> {
    lender.lend_swap(&SwapSpec { area: SwapArea::Lent(area.to_owned()), priority: None })
}

/// A copy of a zswap store with zswap's shrinker enabled, for measuring writeback; `None` if the
/// store is not zswap.
pub(super) fn with_shrinker(store: &LentStore) -> Option<LentStore> {
    let zswap = store.zswap.as_ref()?;
    let zswap = Some(ZswapSpec { shrinker: true, ..zswap.clone() });
    Some(LentStore { area: store.area.clone(), zswap, ..*store })
}

/// Makes a store the only swap. Returns what was borrowed, in that order; the swap area is the
/// last, and returning it empties zswap's pool.
///
/// # Errors
/// If something is refused. What was borrowed until then is returned to the lender.
pub(super) fn make_only_swap(
    lender: &mut dyn Lender,
    spec: &FaultSpec,
    store: &LentStore,
) -> Result<Vec<LoanId>, Refusal> {
    let is_other_to_switch_off =
        || spec.stores.iter().any(|one| one.kind == StoreKind::Zswap) && is_zswap_on();
    let mut loans = match &store.zswap {
        Some(zswap) => lender.lend_zswap(zswap)?,
        None if is_other_to_switch_off() => {
            vec![lender.lend_knob(&KnobSetting::new("zswap.enabled", "N"))?]
        }
        None => Vec::new(),
    };
    match swap_on(lender, &store.area) {
        Ok(loan) => loans.push(loan),
        Err(refused) => {
            return_loans(lender, loans)?;
            return Err(refused);
        }
    }
    Ok(loans)
}

fn is_zswap_on() -> bool {
    HostRoot::live().is_ok_and(|host| HostGauges(&host).is_zswap_on())
}

/// Returns everything to the lender in reverse order, even if one return fails; reports the first
/// error.
pub(super) fn return_loans(lender: &mut dyn Lender, loans: Vec<LoanId>) -> Result<(), Refusal> {
    let mut first = Ok(());
    for loan in loans.into_iter().rev() {
        let returned = lender.return_loan(loan);
        first = first.and(returned);
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lender that provides what its kernel supports, and records what was borrowed and returned.
    #[derive(Debug, Default)]
    struct FakeLender {
        /// The compressors of the zswap of its kernel; empty: the kernel has no zswap.
        zswap: &'static [&'static str],
        can_hold_swap: bool,
        lent: Vec<(LoanId, String)>,
        given_back: Vec<String>,
        refuses_swap: bool,
        next: u64,
    }

    impl FakeLender {
        fn take(&mut self, what: impl Into<String>) -> LoanId {
            self.next += 1;
            self.lent.push((LoanId(self.next), what.into()));
            LoanId(self.next)
        }

        fn has(&self) -> Vec<&str> {
            self.lent.iter().map(|(_, what)| what.as_str()).collect()
        }
    }

    impl Lender for FakeLender {
        fn lend_zram(&mut self, spec: &ZramSpec) -> Result<ZramDevice, Refusal> {
            let name = spec.compressor.as_ref().map_or("default".to_owned(), ToString::to_string);
            if name == "nonsense" {
                return Err(Refusal::new("a zram device", "no such algorithm"));
            }
            let loan = self.take(format!("zram {name}"));
            let number = u32::try_from(self.next).unwrap();
            let (device, sysfs) = (format!("/dev/zram{number}"), "/sys".into());
            Ok(ZramDevice { loan, number, device: device.into(), sysfs })
        }

        fn lend_swap(&mut self, spec: &SwapSpec) -> Result<LoanId, Refusal> {
            let path = spec.area.path();
            let is_file = path == Path::new("/disk/swapfile");
            if self.refuses_swap || (is_file && !self.can_hold_swap) {
                return Err(Refusal::new("swap", "swapon: invalid argument"));
            }
            Ok(self.take(format!("swap on {}", path.display())))
        }

        fn lend_swap_file(&mut self, folder: &Path, _: Bytes) -> Result<SwapFile, Refusal> {
            let path = folder.join("swapfile");
            Ok(SwapFile { loan: self.take("file"), path })
        }

        fn lend_zswap(&mut self, spec: &ZswapSpec) -> Result<Vec<LoanId>, Refusal> {
            let why = match self.zswap {
                [] => "this kernel was built without it".to_owned(),
                all if !all.contains(&spec.algorithm.as_str()) => {
                    format!("zswap.compressor = {}: invalid argument", spec.algorithm)
                }
                _ => return Ok(vec![self.take("compressor"), self.take("enabled")]),
            };
            Err(Refusal::new(spec.to_string(), why))
        }

        fn return_loan(&mut self, loan: LoanId) -> Result<(), Refusal> {
            let at = self.lent.iter().position(|(id, _)| *id == loan).expect("it is lent");
            self.given_back.push(self.lent.remove(at).1);
            Ok(())
        }
    }

    fn spec(folder: Option<&str>) -> FaultSpec {
        let all = ["lz4", "nonsense", "zstd", "zstd:3"].map(|name| name.parse().unwrap());
        FaultSpec::usual(all.into(), 64).with_zswap(folder.map(Into::into))
    }

    fn numbers(lent: &LentStores) -> Vec<usize> {
        lent.stores.iter().map(|store| store.number).collect()
    }

    #[test]
    fn what_zswap_lacks_is_left_out_with_the_reason() {
        let mut lender =
            FakeLender { zswap: &["lz4"], can_hold_swap: true, ..FakeLender::default() };
        let lent = borrow_stores(&mut lender, &spec(Some("/disk")));
        assert_eq!(numbers(&lent), [0, 4, 6, 1]);
        assert!(!lent.is_zswap_on_zram);
        let reasons: Vec<String> =
            lent.refused.iter().map(|(what, why)| format!("{what}: {why}")).collect();
        assert_eq!(
            reasons,
            [
                "nonsense: a zram device: no such algorithm",
                "zswap zstd:3: zswap has no compression levels",
                "zswap nonsense: zswap.compressor = nonsense: invalid argument",
                "zswap zstd: zswap.compressor = zstd: invalid argument",
            ]
        );
        assert_eq!(lender.has(), ["zram lz4", "zram zstd", "zram zstd:3", "file"]);
    }

    #[test]
    fn a_kernel_without_zswap_costs_zram_nothing_and_is_said_once() {
        let mut lender = FakeLender { can_hold_swap: true, ..FakeLender::default() };
        let lent = borrow_stores(&mut lender, &spec(Some("/disk")));
        assert_eq!(numbers(&lent), [0, 4, 6]);
        let is_it = |(what, _): &&(String, String)| what == "zswap lz4, nonsense, zstd";
        let refused = lent.refused.iter().find(is_it).expect("one line for all of them");
        assert!(refused.1.contains("built without"), "{}", refused.1);
        assert!(!lender.has().contains(&"file"));
    }

    #[test]
    fn where_no_file_can_hold_swap_a_zram_device_stands_behind_zswap() {
        let mut lender = FakeLender { zswap: &["lz4"], ..FakeLender::default() };
        let lent = borrow_stores(&mut lender, &spec(Some("/disk")));
        assert!(lent.is_zswap_on_zram);
        assert_eq!(lender.has(), ["zram lz4", "zram zstd", "zram zstd:3", "zram default"]);
        let (what, why) = lent.refused.last().unwrap();
        assert!(what.contains("behind zswap") && why.contains("swapon"), "{what}: {why}");
        let mut without = FakeLender { zswap: &["lz4"], ..FakeLender::default() };
        assert!(borrow_stores(&mut without, &spec(None)).is_zswap_on_zram);
        assert!(!without.given_back.contains(&"file".to_owned()), "there is no disk");
    }

    #[test]
    fn swap_goes_back_before_zswap_and_nothing_stays_when_it_is_refused() {
        let mut lender =
            FakeLender { zswap: &["lz4"], can_hold_swap: true, ..FakeLender::default() };
        let spec = spec(Some("/disk"));
        let lent = borrow_stores(&mut lender, &spec);
        let store = lent.stores.last().unwrap();
        let before = lender.lent.clone();
        lender.given_back.clear();
        let loans = make_only_swap(&mut lender, &spec, store).unwrap();
        assert_eq!(lender.has()[4..], ["compressor", "enabled", "swap on /disk/swapfile"]);
        return_loans(&mut lender, loans).unwrap();
        assert_eq!(lender.given_back, ["swap on /disk/swapfile", "enabled", "compressor"]);
        lender.refuses_swap = true;
        make_only_swap(&mut lender, &spec, store).unwrap_err();
        assert_eq!(lender.lent, before);
    }
}
