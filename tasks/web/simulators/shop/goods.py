"""Queries about products, carts and orders, and the delivery costs."""

from __future__ import annotations

CATEGORIES = ("kitchen", "garden", "office", "sports", "home", "travel")
DELIVERY = {"standard": 490, "express": 990, "pickup": 0}
"""Delivery methods with their costs, in hundredths."""
FREE_FROM = 5_000
"""Value from which standard delivery is free, in hundredths."""
SORTS = {"name": "name", "price": "price", "rating": "rating DESC", "newest": "id DESC"}
PRODUCTS = """SELECT shop_products.*, coalesce(rating, 0.0) AS rating, coalesce(reviews, 0) AS reviews
    FROM shop_products LEFT JOIN (SELECT product_id, round(avg(stars), 1) AS rating, count(*) AS reviews
    FROM shop_reviews GROUP BY product_id) AS rated ON rated.product_id = shop_products.id"""
LINES = """SELECT shop_cart.id, shop_cart.quantity, shop_products.id AS product_id, name, price, stock FROM shop_cart
    JOIN shop_products ON shop_products.id = shop_cart.product_id WHERE account_id = ? ORDER BY shop_cart.id"""
WANT_LINES = """SELECT shop_order_lines.id, shop_order_lines.quantity, shop_order_lines.price, shop_products.id AS
    product_id, name, stock FROM shop_order_lines JOIN shop_products ON shop_products.id = product_id
    WHERE order_id = ? ORDER BY shop_order_lines.id"""


def delivery_cost(way: str, goods: int) -> int:
    """Return the delivery cost, in hundredths.

    Args:
        way: ``standard``, ``express`` or ``pickup``.
        goods: total value of the goods, in hundredths.
    """
    return 0 if way == "standard" and goods >= FREE_FROM else DELIVERY[way]
