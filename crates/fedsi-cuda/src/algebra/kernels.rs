//! Kernels of the linear algebra, as CUDA C++: what cuBLAS and cuSOLVER do not have.

/// Threads of a block of every kernel here.
pub(super) const THREADS: u32 = 256;

/// Multiplies rows of a Jacobian out of its factors: `out[row, column]`, row after row.
pub(super) const EXPAND_ROWS: (&str, &str) = (
    "expand_rows",
    r#"
extern "C" __global__ void expand_rows(
    double* out,
    const double* inputs,
    const double* gains,
    const double* dense,
    const unsigned int* sample_of_row,
    const unsigned int* unit_of_column,
    const unsigned long long* first_input_of_column,
    const unsigned int* width_of_column,
    unsigned int first_row,
    unsigned int rows,
    unsigned int columns,
    unsigned int structured,
    unsigned int units)
{
    unsigned int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= columns) {
        return;
    }
    for (unsigned int row = blockIdx.y; row < rows; row += gridDim.y) {
        unsigned long long source = first_row + row;
        double value;
        if (column < structured) {
            unsigned long long sample = sample_of_row[source];
            double gain = gains[source * units + unit_of_column[column]];
            value = gain * inputs[first_input_of_column[column] + sample * width_of_column[column]];
        } else {
            value = dense[source * (columns - structured) + (column - structured)];
        }
        out[(unsigned long long)row * columns + column] = value;
    }
}
"#,
);

/// Zeros above the diagonal of a matrix, column after column.
pub(super) const CLEAR_UPPER: (&str, &str) = (
    "clear_upper",
    r#"
extern "C" __global__ void clear_upper(double* matrix, unsigned int size)
{
    unsigned int row = blockIdx.x * blockDim.x + threadIdx.x;
    for (unsigned long long column = blockIdx.y; column < size; column += gridDim.y) {
        if (row < column) {
            matrix[column * size + row] = 0.0;
        }
    }
}
"#,
);

/// The columns of a matrix, row after row, times a weight each: `weights` is `[columns, count]`, of which column `which`
/// counts.
pub(super) const SCALE_COLUMNS: (&str, &str) = (
    "scale_columns",
    r#"
extern "C" __global__ void scale_columns(
    double* out,
    const double* matrix,
    const double* weights,
    unsigned int rows,
    unsigned int columns,
    unsigned int count,
    unsigned int which)
{
    unsigned int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= columns) {
        return;
    }
    double weight = weights[(unsigned long long)column * count + which];
    for (unsigned long long row = blockIdx.y; row < rows; row += gridDim.y) {
        out[row * columns + column] = weight * matrix[row * columns + column];
    }
}
"#,
);

/// `I + scale * matrix` of square matrices.
pub(super) const SHIFTED: (&str, &str) = (
    "shifted",
    r#"
extern "C" __global__ void shifted(double* out, const double* matrix, double scale, unsigned int size)
{
    unsigned int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= size) {
        return;
    }
    for (unsigned long long column = blockIdx.y; column < size; column += gridDim.y) {
        double one = row == column ? 1.0 : 0.0;
        out[column * size + row] = scale * matrix[column * size + row] + one;
    }
}
"#,
);
