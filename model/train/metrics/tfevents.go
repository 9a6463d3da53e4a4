package metrics

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// EventsFile is a file name that TensorBoard recognises as an event file.
const EventsFile = "events.out.tfevents.0.scalewm"

// EventsHead returns the first record of every event file, which contains the version
// of the format.
func EventsHead() []byte {
	return record(protowire.AppendString(protowire.AppendTag(nil, 3, protowire.BytesType), "brain.Event:2"))
}

// WriteEvents writes rows as an event file for TensorBoard. Each number of a row
// becomes a scalar, named after its key in metrics.jsonl and the split, such as
// loss/train. Rows contain no times, so step n gets the wall time of n seconds.
//
// In the format (docs/sources.md#tfevents) a row is a record: its length and its
// bytes, each followed by a masked CRC-32C. The bytes are a message Event with
// wall_time (1), step (2) and summary (5). The summary repeats value (1), with tag
// (1) and simple_value (2).
func WriteEvents(w io.Writer, rows []Row) error {
	if _, err := w.Write(EventsHead()); err != nil {
		return err
	}
	for _, row := range rows {
		numbers, err := row.numbers()
		if err != nil {
			return fmt.Errorf("step %d: %w", row.Step, err)
		}
		var summary []byte
		for _, name := range slices.Sorted(maps.Keys(numbers)) {
			value := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name+"/"+row.Split)
			value = protowire.AppendFixed32(protowire.AppendTag(value, 2, protowire.Fixed32Type), math.Float32bits(float32(numbers[name])))
			summary = protowire.AppendBytes(protowire.AppendTag(summary, 1, protowire.BytesType), value)
		}
		var event []byte
		if row.Step != 0 { // proto3 omits fields that are zero
			event = protowire.AppendFixed64(protowire.AppendTag(event, 1, protowire.Fixed64Type), math.Float64bits(float64(row.Step)))
			event = protowire.AppendVarint(protowire.AppendTag(event, 2, protowire.VarintType), uint64(row.Step))
		}
		event = protowire.AppendBytes(protowire.AppendTag(event, 5, protowire.BytesType), summary)
		if _, err := w.Write(record(event)); err != nil {
			return err
		}
	}
	return nil
}

// numbers returns the row's numbers, except for the step, by their keys in the file.
// It goes through JSON, so that the keys are those of the struct tags.
func (r Row) numbers() (map[string]float64, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	numbers := map[string]float64{}
	for name, v := range all {
		if v, ok := v.(float64); ok && name != "step" {
			numbers[name] = v
		}
	}
	return numbers, nil
}

// record frames data as a record of a TFRecord file.
func record(data []byte) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	b = binary.LittleEndian.AppendUint32(b, masked(b))
	b = append(b, data...)
	return binary.LittleEndian.AppendUint32(b, masked(data))
}

// masked returns the CRC-32C of b as TFRecord stores it, rotated and with an added
// constant. Without that, the checksum of data that itself contains checksums would
// be weak.
func masked(b []byte) uint32 {
	crc := crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
	return crc>>15 | crc<<17 + 0xa282ead8
}
