"""Products with their ratings, and the cart: prices and availability."""

from __future__ import annotations

from typing import Any

from ....rows.database import Database, Row
from ..app import money

FREE_FROM, SHIPPING = 5_000, 490
"""Shipping cost, and the sum from which shipping is free, in cents."""
PRODUCTS = """SELECT products.*, rating, stock FROM products
    LEFT JOIN (SELECT product_id, round(avg(stars), 1) AS rating FROM reviews GROUP BY product_id) AS rated
    ON rated.product_id = products.id
    JOIN (SELECT product_id, sum(stock) AS stock FROM variants GROUP BY product_id) AS kept
    ON kept.product_id = products.id"""
LINES = """SELECT cart_items.id, cart_items.quantity, variants.id AS variant_id, variants.label, variants.stock,
    products.id AS product_id, products.name, products.price FROM cart_items JOIN variants ON
    variants.id = cart_items.variant_id JOIN products ON products.id = variants.product_id ORDER BY cart_items.id"""


def shipping(subtotal: int) -> int:
    """Return the shipping cost for goods of a price, in cents."""
    return 0 if subtotal >= FREE_FROM else SHIPPING


def total(subtotal: int) -> int:
    """Return the total cost of goods of a price with shipping, in cents."""
    return subtotal + shipping(subtotal)


def cart(db: Database) -> dict[str, Any]:
    """Return the cart in the form of calls."""
    lines = db.rows(LINES)
    subtotal = sum(line["quantity"] * line["price"] for line in lines)
    cost = shipping(subtotal) if lines else 0
    return {
        "items": [_line(line) for line in lines],
        "subtotal": money(subtotal),
        "shipping": money(cost),
        "total": money(subtotal + cost),
    }


def product(row: Row) -> dict[str, Any]:
    """Return a product in the form of listings."""
    shown = {"product_id": row["id"], "name": row["name"], "category": row["category"], "price": money(row["price"])}
    return {**shown, "rating": row["rating"], "in_stock": row["stock"] > 0}


def _line(line: Row) -> dict[str, Any]:
    shown = {"variant_id": line["variant_id"], "product_id": line["product_id"], "name": line["name"]}
    rest = {"variant": line["label"], "price": money(line["price"]), "quantity": line["quantity"]}
    return {**shown, **rest, "sum": money(line["price"] * line["quantity"])}
