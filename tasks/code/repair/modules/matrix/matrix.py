"""Integer matrices as lists of rows, with exact arithmetic."""

from __future__ import annotations

Matrix = list[list[int]]


def shape(matrix: Matrix) -> tuple[int, int]:
    """Return the numbers of rows and columns.

    Raises:
        ValueError: rows differ in length.
    """
    columns = len(matrix[0]) if matrix else 0
    for index, row in enumerate(matrix):
        if len(row) != columns:
            raise ValueError(f"row {index} has {len(row)} columns, not {columns}")
    return len(matrix), columns


def identity(size: int) -> Matrix:
    """Return the identity matrix."""
    return [[1 if row == column else 0 for column in range(size)] for row in range(size)]


def transpose(matrix: Matrix) -> Matrix:
    """Return the transposed matrix."""
    rows, columns = shape(matrix)
    return [[matrix[row][column] for row in range(rows)] for column in range(columns)]


def add(one: Matrix, other: Matrix, factor: int = 1) -> Matrix:
    """Return ``one + factor * other``.

    Raises:
        ValueError: their shapes differ.
    """
    if shape(one) != shape(other):
        raise ValueError(f"shapes {shape(one)} and {shape(other)} differ")
    return [[a + factor * b for a, b in zip(left, right, strict=True)] for left, right in zip(one, other, strict=True)]


def multiply(one: Matrix, other: Matrix) -> Matrix:
    """Return the matrix product.

    Raises:
        ValueError: the number of columns of the first is not the number of rows of the second.
    """
    rows, inner = shape(one)
    height, columns = shape(other)
    if inner != height:
        raise ValueError(f"cannot multiply {inner} columns by {height} rows")
    product = [[0] * columns for _ in range(rows)]
    for row in range(rows):
        for column in range(columns):
            for index in range(inner):
                product[row][column] += one[row][index] * other[index][column]
    return product


def power(matrix: Matrix, exponent: int) -> Matrix:
    """Return a power of a square matrix, by repeated squaring.

    Raises:
        ValueError: the exponent is negative.
    """
    if exponent < 0:
        raise ValueError(f"an integer matrix has no power {exponent}")
    result = identity(len(matrix))
    base = matrix
    while exponent > 0:
        if exponent % 2 == 1:
            result = multiply(result, base)
        base = multiply(base, base)
        exponent //= 2
    return result


def minor(matrix: Matrix, row: int, column: int) -> Matrix:
    """Return the matrix without one row and one column."""
    return [line[:column] + line[column + 1 :] for index, line in enumerate(matrix) if index != row]


def determinant(matrix: Matrix) -> int:
    """Return the determinant, by fraction-free elimination (Bareiss, 1968).

    Raises:
        ValueError: the matrix is not square.
    """
    rows, columns = shape(matrix)
    if rows != columns:
        raise ValueError(f"a matrix of shape {rows} by {columns} has no determinant")
    work = [list(row) for row in matrix]
    sign, previous = 1, 1
    for step in range(rows - 1):
        if work[step][step] == 0:
            swap = next((row for row in range(step + 1, rows) if work[row][step] != 0), None)
            if swap is None:
                return 0
            work[step], work[swap] = work[swap], work[step]
            sign = -sign
        for row in range(step + 1, rows):
            for column in range(step + 1, rows):
                cross = work[row][column] * work[step][step] - work[row][step] * work[step][column]
                work[row][column] = cross // previous
        previous = work[step][step]
    return sign * work[-1][-1] if rows else 1


def trace(matrix: Matrix) -> int:
    """Return the sum of the diagonal."""
    return sum(matrix[index][index] for index in range(min(shape(matrix))))


def spiral(matrix: Matrix) -> list[int]:
    """Return all numbers in a clockwise spiral from the top left corner inward."""
    seen: list[int] = []
    rest = [list(row) for row in matrix]
    while rest:
        seen += rest[0]
        rest = [list(column) for column in zip(*rest[1:], strict=True)][::-1]
    return seen
