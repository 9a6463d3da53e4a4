// Package dataset is logged experience: episodes of rows with columns and
// frames in the field's HDF5 layout, clips cut from them for training, their
// normalisation, splits and fingerprint. It knows no task (dataset/collect and
// dataset/replay do) and no model.
package dataset

// The stored frame: row-major RGB, one byte a channel.
const (
	FrameSize  = 224
	FrameBytes = FrameSize * FrameSize * 3
)

// Column is a numeric column: row t is the state before the action of row t,
// except for the columns that belong to the step into the row (terminated, reward, substeps, ...).
type Column struct {
	Name  string
	DType string // float32, float64, float16, int32, int64, uint8, ...
	Width int    // numbers a row
	// Matrix says that a column of Width 1 is stored as rows x 1 and not as rows. It
	// changes nothing but the file's layout.
	Matrix bool
}

// Episode is a run of rows of a file.
type Episode struct{ Offset, Len int }

// Source is a readable data set. It may be read by many goroutines at once.
type Source interface {
	Rows() int
	Episodes() []Episode
	Columns() []Column
	// Read returns rows [from, to) of a column, row-major, widened exactly to float64.
	Read(column string, from, to int) ([]float64, error)
	// HasFrames says whether there is a pixels column; Frame decodes one of FrameBytes into dst.
	HasFrames() bool
	Frame(row int, dst []byte) error
	// Attr is a string attribute of the file (env, numeric_mode, ...).
	Attr(name string) (string, bool)
	// Fingerprint is a hex SHA-256 over layout and content, the same for equal data
	// however it is chunked or compressed.
	Fingerprint() (string, error)
	Close() error
}
