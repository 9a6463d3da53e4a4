package features

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"scalewm/dataset/cell"
	"scalewm/dataset/parallel"
	"scalewm/dataset/rng"
	"scalewm/dataset/safefile"
)

// cache is a folder of shards. Each holds the features of some successive rows and
// is a finished file, written aside and renamed: so a killed fill goes on with
// the next shard, and several processes can fill one cache.
type cache struct {
	Options
	dir, id string
	shards  []shard // all there are
	per     int     // rows of a shard, but for the last
	// replaced counts shards that were torn or written by an earlier version, whose checksums
	// do not depend on the order of rows.
	replaced int
}

func newCache(o Options) (*cache, error) {
	id, err := cell.ID("features", o.Key)
	if err != nil {
		return nil, err
	}
	c := &cache{Options: o, dir: filepath.Join(o.Path+".features", id), id: id}
	c.per = max(1, shardBytes/c.rowBytes())
	for from := 0; from < o.Data.Rows(); from += c.per {
		c.shards = append(c.shards, shard{from, min(from+c.per, o.Data.Rows())})
	}
	return c, nil
}

// shard is the rows [from, to).
type shard struct{ from, to int }

// shardBytes is about how large a shard is: what a kill loses.
var shardBytes = 64_000_000 // tests have smaller ones

// A row is its numbers, little-endian, and the CRC-32C of the row's number and these bytes.
func (c *cache) rowBytes() int { return 2*c.Key.numbers() + 4 }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(row int, numbers []byte) uint32 {
	return crc32.Update(crc32.Checksum(binary.LittleEndian.AppendUint64(nil, uint64(row)), castagnoli), castagnoli, numbers)
}

// headerBytes is the length of a shard's first line, padded with spaces.
const headerBytes = 96

func (c *cache) header(s shard) string {
	return fmt.Sprintf("%-*s\n", headerBytes-1, fmt.Sprintf("scalewm features 2 %s rows %d to %d", c.id, s.from, s.to))
}

func (s shard) bytes(c *cache) int64 { return headerBytes + int64(s.to-s.from)*int64(c.rowBytes()) }

// bytes is what the whole cache takes.
func (c *cache) bytes() (n int64) {
	for _, s := range c.shards {
		n += s.bytes(c)
	}
	return n
}

func (c *cache) path(s shard) string { return filepath.Join(c.dir, fmt.Sprintf("%09d.rows", s.from)) }

// there says whether a shard is, whole and of this cache. Anything else of its name is
// made anew.
func (c *cache) there(s shard) (bool, error) {
	f, err := safefile.Open(c.path(s), safefile.MaxData)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return false, err
	}
	head := make([]byte, headerBytes)
	if _, err := io.ReadFull(f, head); err != nil || st.Size() != s.bytes(c) {
		return false, nil
	}
	return string(head) == c.header(s), nil
}

// missing are the shards that are to be made.
func (c *cache) missing() (list []shard, err error) {
	for _, s := range c.shards {
		ok, err := c.there(s)
		if err != nil {
			return nil, fmt.Errorf("looking into the feature cache: %w (hint: remove %s)", err, c.path(s))
		}
		if !ok {
			list = append(list, s)
		}
	}
	return list, nil
}

// keyName is the file that says whose features a folder holds.
const keyName = "key.json"

// describe makes the folder.
func (c *cache) describe() error {
	b, err := json.MarshalIndent(c.Key, "", "  ")
	if err != nil {
		return err
	}
	return safefile.Write(filepath.Join(c.dir, keyName), func(w io.Writer) error { _, err := w.Write(append(b, '\n')); return err })
}

// others says in words what else lies beside the cache.
func (c *cache) others() string {
	all := os.DirFS(filepath.Dir(c.dir))
	files, err := fs.Glob(all, "*/*.rows")
	if err != nil {
		return ""
	}
	folders, total := map[string]bool{}, int64(0)
	for _, f := range files {
		if dir := filepath.Dir(f); dir != filepath.Base(c.dir) {
			folders[dir] = true
			if st, err := fs.Stat(all, f); err == nil {
				total += st.Size()
			}
		}
	}
	if len(folders) == 0 {
		return ""
	}
	return fmt.Sprintf("; %d beside it, of other data, backbones or devices, take %s and are not read", len(folders), size(total))
}

// errThere ends the writing of a shard that another process has made meanwhile.
var errThere = errors.New("it is there")

// fill makes the missing shards and says how many. Every process goes through them in an
// order of its own, so that two seldom want the same one; then the second waits for it.
func (c *cache) fill(ctx context.Context) (made int, err error) {
	missing, err := c.missing()
	if err != nil {
		return 0, err
	}
	done, total := int64(c.Data.Rows()), int64(c.Data.Rows())
	for _, s := range missing {
		done -= int64(s.to - s.from)
	}
	for _, i := range rng.Stream("features", os.Getpid()).Perm(len(missing)) {
		s := missing[i]
		if _, err := os.Lstat(c.path(s)); err == nil {
			c.replaced++
		}
		err := safefile.Write(c.path(s), func(w io.Writer) error { return c.write(ctx, w, s) })
		if err != nil && !errors.Is(err, errThere) {
			return made, err
		}
		if err == nil {
			made++
		}
		if done += int64(s.to - s.from); c.Progress != nil {
			c.Progress(done, total, "features of all frames")
		}
	}
	return made, nil
}

func (c *cache) write(ctx context.Context, w io.Writer, s shard) error {
	if ok, err := c.there(s); err != nil {
		return err
	} else if ok {
		return errThere
	}
	if _, err := io.WriteString(w, c.header(s)); err != nil {
		return err
	}
	rows := make([]int32, s.to-s.from)
	for i := range rows {
		rows[i] = int32(s.from + i)
	}
	row := make([]byte, 0, c.rowBytes())
	return c.encode(ctx, rows, func(i int, values []uint16) error {
		row = row[:0]
		for _, v := range values {
			row = binary.LittleEndian.AppendUint16(row, v)
		}
		_, err := w.Write(binary.LittleEndian.AppendUint32(row, checksum(s.from+i, row)))
		return err
	})
}

// Features reads rows from their shards. A file is open for a row only, since there
// may be more than a process may hold open.
func (c *cache) Features(ctx context.Context, rows []int32, dst []uint16) error {
	n := c.Key.numbers()
	return parallel.For(ctx, c.Workers, len(rows), func(_, i int) error {
		row := int(rows[i])
		if row < 0 || row >= c.Data.Rows() {
			return fmt.Errorf("features of row %d: the data set has %d rows", row, c.Data.Rows())
		}
		s := c.shards[row/c.per]
		if err := c.readRow(s, row, dst[i*n:][:n]); err != nil {
			return fmt.Errorf("reading features from %s: %w (hint: remove that file; the same command makes it again)", c.path(s), err)
		}
		return nil
	})
}

func (c *cache) readRow(s shard, row int, dst []uint16) error {
	f, err := safefile.Open(c.path(s), safefile.MaxData)
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, c.rowBytes())
	if _, err := f.ReadAt(b, headerBytes+int64(row-s.from)*int64(len(b))); err != nil {
		return err
	}
	numbers, sum := b[:len(b)-4], b[len(b)-4:]
	if binary.LittleEndian.Uint32(sum) != checksum(row, numbers) {
		return fmt.Errorf("row %d is damaged", row)
	}
	for j := range dst {
		dst[j] = binary.LittleEndian.Uint16(numbers[2*j:])
	}
	return nil
}

// Close leaves the files for the next run.
func (c *cache) Close() error { return nil }
