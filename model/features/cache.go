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

// cache is a folder of shards. Each shard holds the features of consecutive rows, in
// a file that is written atomically. After a kill, filling therefore continues with
// the next missing shard, and several processes can fill the same cache.
type cache struct {
	Options
	dir, id string
	shards  []shard // of the complete cache, in row order
	per     int     // rows per shard, except for the last
	// replaced counts files that fill found damaged or in an older format, and replaced.
	replaced int
}

// newCache returns the cache for the key in o. It does not touch the disk.
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

// shard is a range of rows, [from, to).
type shard struct{ from, to int }

// shardBytes is the approximate size of a shard, and so the work that a kill loses.
// It is a variable for tests.
var shardBytes = 64_000_000

// rowBytes returns the size of a row in a shard: its numbers (Key.pack) and a checksum
// of 4 bytes.
func (c *cache) rowBytes() int { return c.Key.bytes() + 4 }

// castagnoli is the table for CRC-32C.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum returns the CRC-32C of the row's index and its numbers. The index makes
// rows that were exchanged detectable.
func checksum(row int, numbers []byte) uint32 {
	return crc32.Update(crc32.Checksum(binary.LittleEndian.AppendUint64(nil, uint64(row)), castagnoli), castagnoli, numbers)
}

// headerBytes is the length of a shard's header, a line padded with spaces.
const headerBytes = 96

// header returns the header of a shard, which identifies the cache and the rows.
func (c *cache) header(s shard) string {
	return fmt.Sprintf("%-*s\n", headerBytes-1, fmt.Sprintf("scalewm features 2 %s rows %d to %d", c.id, s.from, s.to))
}

// bytes returns the size of a shard's file.
func (s shard) bytes(c *cache) int64 { return headerBytes + int64(s.to-s.from)*int64(c.rowBytes()) }

// bytes returns the size of the complete cache.
func (c *cache) bytes() (n int64) {
	for _, s := range c.shards {
		n += s.bytes(c)
	}
	return n
}

// path returns the path of a shard's file.
func (c *cache) path(s shard) string { return filepath.Join(c.dir, fmt.Sprintf("%09d.rows", s.from)) }

// valid reports whether a shard exists, is complete and belongs to this cache. Any
// other file in its place is replaced. The checksums of the rows are verified when
// they are read.
func (c *cache) valid(s shard) (bool, error) {
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

// missing returns the shards that must be computed.
func (c *cache) missing() (list []shard, err error) {
	for _, s := range c.shards {
		ok, err := c.valid(s)
		if err != nil {
			return nil, fmt.Errorf("looking into the feature cache: %w (hint: remove %s)", err, c.path(s))
		}
		if !ok {
			list = append(list, s)
		}
	}
	return list, nil
}

// keyName is the file in which a cache's folder records its Key, for human readers.
const keyName = "key.json"

// describe creates the folder and writes the key.
func (c *cache) describe() error {
	b, err := json.MarshalIndent(c.Key, "", "  ")
	if err != nil {
		return err
	}
	return safefile.Write(filepath.Join(c.dir, keyName), func(w io.Writer) error { _, err := w.Write(append(b, '\n')); return err })
}

// otherCaches describes the other caches of the data set for a note, or returns "" if
// there are none.
func (c *cache) otherCaches() string {
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
	return fmt.Sprintf("; %d caches of other data, backbones or devices take %s and are not read", len(folders), size(total))
}

// errExists cancels the writing of a shard that another process has completed in the
// meantime.
var errExists = errors.New("the shard exists")

// fill computes the missing shards and returns how many it has computed. Each process
// visits them in a different random order, so that two rarely work on the same one.
// If they do, the second waits for the first if both are on one host, since
// safefile.Write locks the path.
func (c *cache) fill(ctx context.Context) (filled int, err error) {
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
		if err != nil && !errors.Is(err, errExists) {
			return filled, err
		}
		if err == nil {
			filled++
		}
		if done += int64(s.to - s.from); c.Progress != nil {
			c.Progress(done, total, "features of all frames")
		}
	}
	return filled, nil
}

// write computes a shard and writes it to w. It first checks whether another process has
// completed the shard while this one waited for the lock.
func (c *cache) write(ctx context.Context, w io.Writer, s shard) error {
	if ok, err := c.valid(s); err != nil {
		return err
	} else if ok {
		return errExists
	}
	if _, err := io.WriteString(w, c.header(s)); err != nil {
		return err
	}
	rows := make([]int32, s.to-s.from)
	for i := range rows {
		rows[i] = int32(s.from + i)
	}
	return c.encode(ctx, rows, func(i int, row []byte) error {
		_, err := w.Write(binary.LittleEndian.AppendUint32(row, checksum(s.from+i, row)))
		return err
	})
}

// Features reads rows from their shards. It opens a file for a single row at a time,
// since a cache may have more shards than a process may have open files.
func (c *cache) Features(ctx context.Context, rows []int32, dst []float32) error {
	n := c.Key.numbers()
	return parallel.For(ctx, c.Workers, len(rows), func(_, i int) error {
		row := int(rows[i])
		if row < 0 || row >= c.Data.Rows() {
			return fmt.Errorf("features of row %d: the data set has %d rows", row, c.Data.Rows())
		}
		s := c.shards[row/c.per]
		if err := c.readRow(s, row, dst[i*n:][:n]); err != nil {
			return fmt.Errorf("reading features from %s: %w (hint: remove that file; the same command restores it)", c.path(s), err)
		}
		return nil
	})
}

// readRow reads the numbers of one row from its shard and verifies their checksum.
func (c *cache) readRow(s shard, row int, dst []float32) error {
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
	c.Key.unpack(dst, numbers)
	return nil
}

// Close does nothing: the files remain for the next run.
func (c *cache) Close() error { return nil }
