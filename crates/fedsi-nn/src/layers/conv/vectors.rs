//! The vector registers of the machine, in safe code: faer has the arithmetic, this adds reading and writing.

use std::any::Any;

use pulp::Simd;
use pulp::bytemuck::{bytes_of, cast_slice, cast_slice_mut, pod_read_unaligned};

use crate::Scalar;

/// A register of [`Vectors`].
pub(super) type Vector<T, S> = <T as faer::traits::ComplexField>::SimdVec<S>;

/// Arithmetic on vectors of `LANES` values. Every function is compiled for the vectors of `S` when inlined into
/// code that is.
pub(super) struct Vectors<T: Scalar, S: Simd, const LANES: usize> {
    context: T::SimdCtx<S>,
}

impl<T: Scalar, S: Simd, const LANES: usize> Vectors<T, S, LANES> {
    #[inline(always)]
    pub(super) fn new(simd: S) -> Self {
        Self { context: T::simd_ctx(simd) }
    }

    #[inline(always)]
    pub(super) fn splat(&self, value: T) -> Vector<T, S> {
        T::simd_splat(&self.context, &value)
    }

    #[inline(always)]
    pub(super) fn read(&self, values: &[T; LANES]) -> Vector<T, S> {
        // Which of the two precisions it is, is known when this is compiled: what is left is one instruction.
        let values: &dyn Any = values;
        if let Some(single) = values.downcast_ref::<[f32; LANES]>() {
            pod_read_unaligned(cast_slice(single))
        } else if let Some(double) = values.downcast_ref::<[f64; LANES]>() {
            pod_read_unaligned(cast_slice(double))
        } else {
            unreachable!("scalars are f32 or f64")
        }
    }

    #[inline(always)]
    pub(super) fn write(&self, vector: Vector<T, S>, values: &mut [T; LANES]) {
        let values: &mut dyn Any = values;
        if let Some(single) = values.downcast_mut::<[f32; LANES]>() {
            cast_slice_mut(single).copy_from_slice(bytes_of(&vector));
        } else if let Some(double) = values.downcast_mut::<[f64; LANES]>() {
            cast_slice_mut(double).copy_from_slice(bytes_of(&vector));
        }
    }

    /// `a b + c`: fused where that is one instruction, two operations elsewhere.
    #[inline(always)]
    pub(super) fn multiply_add(&self, a: Vector<T, S>, b: Vector<T, S>, c: Vector<T, S>) -> Vector<T, S> {
        T::simd_mul_add(&self.context, a, b, c)
    }

    #[inline(always)]
    pub(super) fn add(&self, a: Vector<T, S>, b: Vector<T, S>) -> Vector<T, S> {
        T::simd_add(&self.context, a, b)
    }

    /// The sum of the lanes.
    #[inline(always)]
    pub(super) fn sum(&self, vector: Vector<T, S>) -> T {
        T::simd_reduce_sum(&self.context, vector)
    }
}
