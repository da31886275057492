// SPDX-License-Identifier: Apache-2.0
//! Devices, regions and windows: what programs use.

mod region;
mod window;

use std::sync::Arc;
use std::time::Duration;

use ipc::token::Token;
pub use region::Region;
pub use window::{Epoch, Stores, Window};

use crate::backend::rack::Rack;
use crate::backend::soft::Soft;
use crate::backend::{Backend, Info, Polling};
use crate::config::{BackendKind, Config};
use crate::error::{Error, Result};

/// A way to other memory: a board, or the daemon. Threads may share it; a child after `fork` opens its own.
#[derive(Debug, Clone)]
pub struct Device {
    backend: Arc<dyn Backend>,
    spin: Duration,
}

impl Device {
    /// Opens what the configuration says.
    ///
    /// # Errors
    /// If it is not there, or may not be used.
    pub fn open(config: &Config) -> Result<Self> {
        let backend: Arc<dyn Backend> = match config.backend {
            BackendKind::Soft => Arc::new(Soft::open(config)?),
            BackendKind::Rack => Arc::new(Rack::open(&config.rack)?),
            #[cfg(feature = "pcie")]
            BackendKind::Pcie => Arc::new(crate::backend::pcie::Pcie::open(config)?),
            #[cfg(not(feature = "pcie"))]
            BackendKind::Pcie => {
                return Err(crate::Error::Unsupported {
                    what: "opening a board",
                    backend: "pcie",
                });
            }
        };
        Ok(Self::with(backend, config.spin))
    }

    /// Opens what the file and the environment say.
    ///
    /// # Errors
    /// As [`Config::load`] and [`Device::open`].
    pub fn open_default() -> Result<Self> {
        Self::open(&Config::load()?)
    }

    /// A device with this back end, whose waits spin for `spin`, if that is of use.
    #[must_use]
    pub fn with(backend: Arc<dyn Backend>, spin: Duration) -> Self {
        let spin = match backend.polls() {
            Polling::Free => spin,
            Polling::Blocks => Duration::ZERO,
        };
        Self { backend, spin }
    }

    /// What it can do.
    #[must_use]
    pub fn info(&self) -> Info {
        self.backend.info()
    }

    /// Memory that others may be given access to: zeroed, `bytes` rounded up to whole pages.
    ///
    /// # Errors
    /// If there is none.
    pub fn alloc(&self, bytes: usize) -> Result<Region> {
        const MOST: usize = isize::MAX as usize / 2;
        if bytes == 0 || bytes > MOST {
            return Err(Error::RegionSize { bytes, most: MOST });
        }
        Ok(Region::new(self.backend.alloc(bytes)?, self.spin))
    }

    /// The memory that a token is for.
    ///
    /// # Errors
    /// If the token is refused, which does not say why; or its server cannot be reached.
    pub fn connect(&self, token: &Token) -> Result<Window> {
        Ok(Window::new(self.backend.connect(token)?))
    }
}
