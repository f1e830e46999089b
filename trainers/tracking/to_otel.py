"""OpenTelemetry: gauges in a local file of JSON lines, or sent to a collector by OTLP over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from .tracker import TrackedRun, plain

NAME = "A-Za-z0-9_./-"
"""Characters of the names of OpenTelemetry's instruments."""


class OpenTelemetry:
    """Sets one gauge per number, ``turnwise.`` and its name, and exports all of them after each step.

    OpenTelemetry knows times and no steps, so the step is the gauge ``turnwise.step``.
    """

    def __init__(self, run: TrackedRun) -> None:
        from opentelemetry.sdk.metrics import MeterProvider, _Gauge
        from opentelemetry.sdk.metrics.export import AggregationTemporality, ConsoleMetricExporter, MetricExportResult
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader as Reader
        from opentelemetry.sdk.resources import Resource

        self._stack = ExitStack()
        each = {_Gauge: AggregationTemporality.DELTA}  # export a value once, not again at every later step
        if run.online:
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

            exporter: Any = OTLPMetricExporter(preferred_temporality=each)
        else:
            file = self._stack.enter_context((run.path / "otel.jsonl").open("a", encoding="utf-8"))
            exporter = ConsoleMetricExporter(
                out=file, formatter=lambda data: data.to_json(indent=None) + "\n", preferred_temporality=each
            )
        self._delivered = True
        send = exporter.export

        def export(*words: Any, **options: Any) -> Any:
            result = send(*words, **options)  # the reader drops this result, and a dead collector raises nothing
            self._delivered = result is MetricExportResult.SUCCESS
            return result

        exporter.export = export
        attributes = {"service.name": run.project, "service.instance.id": run.id, "turnwise.run": run.name}
        reader = Reader(exporter, export_interval_millis=float("inf"))  # only when asked
        self._provider = MeterProvider([reader], resource=Resource.create(attributes))
        self._meter = self._provider.get_meter("turnwise")
        self._gauges: dict[str, Any] = {}

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        for name, value in {"step": step, **numbers}.items():
            known = plain(f"turnwise.{name}", NAME)
            if known not in self._gauges:
                self._gauges[known] = self._meter.create_gauge(known)
            self._gauges[known].set(value)
        self._provider.force_flush()

    def close(self) -> None:
        self._provider.shutdown()
        self._stack.close()
        if not self._delivered:
            raise ConnectionError("the collector did not accept the last numbers")
