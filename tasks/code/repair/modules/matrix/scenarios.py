"""The behavior that users of ``matrix`` rely on."""

from __future__ import annotations

from .matrix import add, determinant, identity, minor, multiply, power, shape, spiral, trace, transpose

A = [[1, 2, 3], [4, 5, 6]]
B = [[2, 0], [1, -1], [3, 4]]


def refusal(*work: object) -> str:
    """Return the result of a call as text, or the message of its error."""
    try:
        function, *arguments = work
        return str(function(*arguments))  # type: ignore[operator]
    except ValueError as error:
        return f"refused: {error}"


def shapes() -> object:
    return shape(A), shape(B), shape([]), shape([[]])


def ragged_rows_are_refused() -> object:
    return refusal(shape, [[1, 2], [3]])


def identity_matrices() -> object:
    return identity(3), identity(0)


def rows_become_columns() -> object:
    return transpose(A), transpose([[1]]), transpose([])


def sums() -> object:
    return add(A, A), add([[1, 2]], [[3, 5]], factor=-2)


def sums_of_different_shapes_are_refused() -> object:
    return refusal(add, A, B)


def products() -> object:
    return multiply(A, B), multiply(B, A)


def products_of_unfitting_shapes_are_refused() -> object:
    return refusal(multiply, A, A)


def the_identity_changes_nothing() -> object:
    return multiply(identity(2), A), multiply(A, identity(3))


def powers() -> object:
    return [power([[1, 1], [1, 0]], exponent) for exponent in range(6)]


def a_large_power() -> object:
    return power([[1, 1], [1, 0]], 90)[0][1]


def a_negative_power_is_refused() -> object:
    return refusal(power, [[1]], -1)


def minors() -> object:
    return minor([[1, 2, 3], [4, 5, 6], [7, 8, 9]], 1, 0), minor([[1, 2], [3, 4]], 0, 1)


def small_determinants() -> object:
    return determinant([[3, 8], [4, 6]]), determinant([[7]]), determinant([])


def a_determinant_of_three_rows() -> object:
    return determinant([[6, 1, 1], [4, -2, 5], [2, 8, 7]])


def a_determinant_of_four_rows() -> object:
    return determinant([[2, 5, 1, 4], [-5, 3, 0, 0], [1, 7, 0, -3], [4, 2, -4, 4]])


def rows_are_swapped_where_a_pivot_is_zero() -> object:
    return determinant([[0, 2, 1], [3, 0, 4], [1, 5, 0]]), determinant([[0, 1], [1, 0]])


def the_determinant_of_dependent_rows_is_zero() -> object:
    return determinant([[1, 2], [2, 4]]), determinant([[0, 1, 2], [0, 3, 4], [0, 5, 6]])


def only_squares_have_a_determinant() -> object:
    return refusal(determinant, A)


def traces() -> object:
    return trace([[1, 2], [3, 4]]), trace(A), trace(B)


def arguments_are_not_changed() -> object:
    square = [[0, 2], [3, 4]]
    determinant(square), power(square, 3), spiral(square)
    return square


def spirals() -> object:
    return spiral([[1, 2, 3], [8, 9, 4], [7, 6, 5]]), spiral(A), spiral([[1], [2]]), spiral([])
