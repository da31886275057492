// SPDX-License-Identifier: Apache-2.0
//! The program's structures, which may lie at any address, as the kernel allows. Where they are aligned, as nearly always, they are
//! used in their place.

use std::borrow::Cow;

/// Lends a structure that is only read.
///
/// # Safety
/// At `at` is a `T`, at an address of any alignment, that nobody changes meanwhile.
#[inline(always)]
pub unsafe fn lend<T: Copy, R>(at: *const T, work: impl FnOnce(&T) -> R) -> R {
    if at.is_aligned() {
        // SAFETY: by the caller, and it is aligned.
        work(unsafe { &*at })
    } else {
        // SAFETY: by the caller.
        work(&unsafe { at.read_unaligned() })
    }
}

/// The same of a structure that is written as well; what lies at an odd address is left as it was if the call did not succeed.
///
/// # Safety
/// As [`lend`]; and it can be written.
#[inline(always)]
pub unsafe fn lend_mut<T: Copy, V, E>(
    at: *mut T,
    work: impl FnOnce(&mut T) -> Option<Result<V, E>>,
) -> Option<Result<V, E>> {
    if at.is_aligned() {
        // SAFETY: by the caller, and it is aligned.
        return work(unsafe { &mut *at });
    }
    // SAFETY: by the caller.
    let mut copy = unsafe { at.read_unaligned() };
    let result = work(&mut copy);
    if matches!(result, Some(Ok(_))) {
        // SAFETY: by the caller.
        unsafe { at.write_unaligned(copy) };
    }
    result
}

/// An array that is only read.
///
/// # Safety
/// At `at`, which is not null, are `count` structures, at an address of any alignment, that nobody changes meanwhile.
#[inline(always)]
pub unsafe fn array<'a, T: Copy>(at: *const T, count: usize) -> Cow<'a, [T]> {
    if at.is_aligned() {
        // SAFETY: by the caller, and it is aligned.
        Cow::Borrowed(unsafe { std::slice::from_raw_parts(at, count) })
    } else {
        // SAFETY: by the caller.
        Cow::Owned(unsafe { copied(at, count) })
    }
}

/// A copy of an array.
///
/// # Safety
/// As [`array`].
#[cold]
pub(crate) unsafe fn copied<T: Copy>(at: *const T, count: usize) -> Vec<T> {
    // SAFETY: by the caller.
    let entry = |index| unsafe { at.add(index).read_unaligned() };
    (0..count).map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of which a word begins at the second.
    #[repr(C, align(8))]
    struct Odd(u8, [u8; 16]);

    #[test]
    fn words_at_odd_addresses_are_read_and_written() {
        let mut odd = Odd(0, [0; 16]);
        odd.1[..8].copy_from_slice(&7_u64.to_ne_bytes());
        odd.1[8..].copy_from_slice(&8_u64.to_ne_bytes());
        let at = odd.1.as_mut_ptr().cast::<u64>();
        assert!(!at.is_aligned());
        // SAFETY: two words that can be written.
        unsafe {
            assert_eq!(lend(at, |word| *word), 7);
            assert_eq!(array(at, 2)[..], [7, 8]);
            let change = |word: &mut u64| *word += 2;
            let none: Option<Result<(), ()>> = lend_mut(at, |word| {
                change(word);
                None
            });
            assert_eq!((none, at.read_unaligned()), (None, 7));
            let failed: Option<Result<(), ()>> = lend_mut(at, |word| {
                change(word);
                Some(Err(()))
            });
            assert_eq!((failed, at.read_unaligned()), (Some(Err(())), 7));
            let done: Option<Result<(), ()>> = lend_mut(at, |word| {
                change(word);
                Some(Ok(()))
            });
            assert_eq!((done, at.read_unaligned()), (Some(Ok(())), 9));
        }
    }
}
