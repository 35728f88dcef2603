//! One client's memory for a launch: a piece on the host and the same on the GPU.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use cudarc::driver::CudaContext;

use crate::CudaError;
use crate::device::{Device, lock};
use crate::memory::{ALIGNMENT, DeviceBuffer, PinnedBuffer, Plain, Transfer};

/// Where the parts of an [`Arena`] lie.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ArenaPlan {
    end: usize,
}

/// An array in an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// In bytes.
    start: usize,
    bytes: usize,
}

impl ArenaPlan {
    /// Room for so many values.
    pub(crate) const fn place<T: Plain>(&mut self, values: usize) -> Place {
        let place = Place { start: self.end, bytes: values * size_of::<T>() };
        self.end = (place.start + place.bytes).next_multiple_of(ALIGNMENT);
        place
    }

    /// Bytes so far.
    pub(crate) const fn end(&self) -> usize {
        self.end
    }
}

/// Memory of one client: what is copied to the GPU and back, and there alone what comes after it.
pub(crate) struct Arena {
    host: PinnedBuffer,
    device: DeviceBuffer,
}

impl Arena {
    fn new(context: &Arc<CudaContext>, host: usize, device: usize) -> Result<Self, CudaError> {
        Ok(Self { host: PinnedBuffer::new(context, host)?, device: DeviceBuffer::new(context, device)? })
    }

    /// Writes values on the host.
    ///
    /// # Panics
    /// If there are more or fewer than were planned for: a kernel would read what nobody wrote.
    pub(crate) fn write<T: Plain>(&mut self, place: Place, values: &[T]) {
        assert_eq!(place.bytes, size_of_val(values), "other values than were planned for");
        self.host.write(place.start, values);
    }

    /// Zeros on the host.
    pub(crate) fn clear(&mut self, place: Place) {
        self.host.as_mut_slice()[place.start..place.start + place.bytes].fill(0);
    }

    /// Reads what was copied back.
    ///
    /// # Panics
    /// As [`Self::write`].
    pub(crate) fn read<T: Plain>(&self, place: Place, values: &mut [T]) {
        assert_eq!(place.bytes, size_of_val(values), "other values than were planned for");
        self.host.read(place.start, values);
    }

    /// An array's address on the GPU.
    pub(crate) const fn address(&self, place: Place) -> u64 {
        self.device.address() + place.start as u64
    }

    /// The copy of the arrays from `first` to `last`.
    pub(crate) fn transfer(&mut self, first: Place, last: Place) -> Transfer {
        let range: Range<usize> = first.start..last.start + last.bytes;
        Transfer::new(&mut self.host, &self.device, range)
    }
}

/// Arenas that are not in use.
#[derive(Default)]
pub(crate) struct Arenas {
    idle: Mutex<Vec<Arena>>,
}

impl Arenas {
    /// One with at least so many bytes on the host and on the GPU.
    pub(crate) fn take(&self, device: &Device, host: usize, on_device: usize) -> Result<Arena, CudaError> {
        {
            let mut idle = lock(&self.idle);
            let fits = |arena: &Arena| arena.host.bytes() >= host && arena.device.bytes() >= on_device;
            // The smallest that fits: large ones stay for large work.
            let smallest = (0..idle.len())
                .filter(|&place| fits(&idle[place]))
                .min_by_key(|&place| idle[place].device.bytes());
            if let Some(place) = smallest {
                return Ok(idle.swap_remove(place));
            }
        }
        loop {
            match Arena::new(device.context(), host, on_device) {
                // What nobody uses makes way: arenas, then clients' data.
                Err(CudaError::OutOfMemory { .. } | CudaError::HostMemory { .. }) if self.drop_idle() => {}
                Err(CudaError::OutOfMemory { .. }) if device.data().drop_oldest() => {}
                other => return other,
            }
        }
    }

    /// Frees one that is not in use. Whether there was any.
    fn drop_idle(&self) -> bool {
        lock(&self.idle).pop().is_some()
    }

    /// Gives one back.
    pub(crate) fn give(&self, arena: Arena) {
        lock(&self.idle).push(arena);
    }
}
