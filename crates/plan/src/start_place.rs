// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where each init system other than systemd looks for the start script of a plan ([`Place`]).

use pagewise_model::{InitSystem, Installation};

/// Where the script of a plan is, and what makes the init system run it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) init: InitSystem,
    pub(crate) script: &'static str,
    /// The link that enables the script: its path and target.
    pub(crate) link: Option<(&'static str, &'static str)>,
    /// What the owner of the machine has to do so that the script is run at boot, because a plan
    /// does not change the file that decides it.
    by_hand: Option<&'static str>,
}

const INIT_D: &str = "/etc/init.d/pagewise";

impl Place {
    /// The place of the script with this init system; `None` if there is none or if it is not
    /// needed.
    pub(crate) const fn of(init: InitSystem) -> Option<Self> {
        let (script, link, by_hand) = match init {
            InitSystem::OpenRc => (INIT_D, Some(("/etc/runlevels/boot/pagewise", INIT_D)), None),
            InitSystem::Procd => {
                (INIT_D, Some(("/etc/rc.d/S90pagewise", "../init.d/pagewise")), None)
            }
            InitSystem::RunitCoreServices => {
                ("/etc/runit/core-services/99-pagewise.sh", None, None)
            }
            InitSystem::SysV => {
                (INIT_D, Some(("/etc/rcS.d/S99pagewise", "../init.d/pagewise")), None)
            }
            InitSystem::SysVRegistered => {
                let why = "init runs only scripts that are registered in /etc/init.d/.depend.boot. After `pagewise \
                           apply`, register the script that it wrote: `sudo update-rc.d pagewise defaults`";
                (INIT_D, None, Some(why))
            }
            InitSystem::BusyboxScripts => ("/etc/init.d/S99pagewise", None, None),
            InitSystem::BusyboxRcs => {
                let why = "init runs /etc/init.d/rcS, which starts no other scripts. Add this line at the end of \
                           /etc/init.d/rcS: `/etc/init.d/pagewise start`";
                (INIT_D, None, Some(why))
            }
            InitSystem::Systemd | InitSystem::Unknown => return None,
        };
        Some(Self { init, script, link, by_hand })
    }

    /// What the owner of the machine has still to do so that the script is run at boot.
    pub(crate) fn left_to_owner(&self, installation: &Installation) -> Option<&'static str> {
        self.by_hand.filter(|_| !installation.starts_own_script)
    }
}
