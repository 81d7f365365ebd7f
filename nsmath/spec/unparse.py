"""Records back to the JSON document that they were read from."""

from nsmath.spec.records import (
    Channel,
    LoHi,
    LoHiData,
    Measurement,
    ModifierData,
    Observation,
    ParameterConfig,
    Sample,
)

__all__ = ["unparse"]


def unparse(
    channels: tuple[Channel, ...],
    observations: tuple[Observation, ...],
    measurements: tuple[Measurement, ...],
    version: str,
) -> dict[str, object]:
    """The document: plain dicts, lists, strings and floats."""
    return {
        "channels": [
            {"name": channel.name, "samples": [_sample(sample) for sample in channel.samples]} for channel in channels
        ],
        "observations": [{"name": seen.name, "data": list(seen.data)} for seen in observations],
        "measurements": [
            {
                "name": measurement.name,
                "config": {
                    "poi": measurement.poi,
                    "parameters": [_parameter(config) for config in measurement.parameters],
                },
            }
            for measurement in measurements
        ],
        "version": version,
    }


def _sample(sample: Sample) -> dict[str, object]:
    return {
        "name": sample.name,
        "data": list(sample.data),
        "modifiers": [
            {"name": modifier.name, "type": modifier.type, "data": _data(modifier.data)}
            for modifier in sample.modifiers
        ],
    }


def _data(data: ModifierData) -> object:
    if isinstance(data, LoHi):
        return {"lo": data.lo, "hi": data.hi}
    if isinstance(data, LoHiData):
        return {"lo_data": list(data.lo_data), "hi_data": list(data.hi_data)}
    return None if data is None else list(data)


def _parameter(config: ParameterConfig) -> dict[str, object]:
    found: dict[str, object] = {"name": config.name}
    for key in ("inits", "auxdata", "sigmas"):
        values = getattr(config, key)
        if values is not None:
            found[key] = list(values)
    if config.bounds is not None:
        found["bounds"] = [list(pair) for pair in config.bounds]
    if config.fixed is not None:
        found["fixed"] = config.fixed
    return found
