//! Memory that a kernel is given, as a GPU's: aligned, with guards around it.

/// Values at an address that is a multiple of 128, with guards that tell of writes outside of it. What is not initialised,
/// and the guards, have every bit set: no number as a float, -1 as an integer.
pub(crate) struct Buffer<T> {
    /// In units of 128 bytes, so that the start is aligned.
    memory: Vec<Unit>,
    start: *mut T,
    length: usize,
    name: &'static str,
}

#[repr(C, align(128))]
#[derive(Clone, Copy)]
struct Unit([u8; 128]);

/// Units of guard on each side.
const GUARD: usize = 4;

impl<T: Copy> Buffer<T> {
    /// So many values, not initialised. The name is for messages.
    pub(crate) fn uninitialised(name: &'static str, length: usize) -> Self {
        let units = (length * size_of::<T>()).div_ceil(128) + 2 * GUARD;
        let mut memory = vec![Unit([0xff; 128]); units];
        let start = memory[GUARD..].as_mut_ptr().cast();
        Self { memory, start, length, name }
    }

    /// These values.
    pub(crate) fn of(name: &'static str, values: &[T]) -> Self {
        let buffer = Self::uninitialised(name, values.len());
        // SAFETY: the memory has room for `length` values from the first unit behind the guard on.
        #[allow(unsafe_code)]
        unsafe {
            std::ptr::copy_nonoverlapping(values.as_ptr(), buffer.start, values.len());
        }
        buffer
    }

    /// For a job.
    pub(crate) fn address(&self) -> u64 {
        self.start as u64
    }

    /// What is there now. Fails where somebody wrote outside.
    pub(crate) fn values(&self) -> Vec<T> {
        self.check();
        // SAFETY: the memory holds `length` values, initialised by `of` or `uninitialised`, and T is plain data.
        #[allow(unsafe_code)]
        unsafe { std::slice::from_raw_parts(self.start, self.length) }.to_vec()
    }

    /// Fails where somebody wrote outside.
    pub(crate) fn check(&self) {
        let bytes: Vec<u8> = self.memory.iter().flat_map(|unit| unit.0).collect();
        let (start, end) = (GUARD * 128, GUARD * 128 + self.length * size_of::<T>());
        let before = bytes[..start].iter().rposition(|&byte| byte != 0xff);
        let behind = bytes[end..].iter().position(|&byte| byte != 0xff);
        assert!(
            before.is_none(),
            "`{}`: a kernel wrote {} bytes before its start",
            self.name,
            start - before.unwrap_or(0)
        );
        assert!(
            behind.is_none(),
            "`{}`: a kernel wrote {} bytes behind its end",
            self.name,
            behind.unwrap_or(0)
        );
    }
}
