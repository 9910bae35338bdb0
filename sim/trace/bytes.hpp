// Variable-length integers, texts and run-length columns in a byte string. The reader never reads past its end nor believes a
// count that the bytes left cannot hold: it throws std::runtime_error, which the caller completes with the file's name.
#pragma once

#include <bit>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace orrery {

inline std::uint64_t zigzag(std::int64_t v) { return (static_cast<std::uint64_t>(v) << 1) ^ static_cast<std::uint64_t>(v >> 63); }
inline std::int64_t unzigzag(std::uint64_t v) { return static_cast<std::int64_t>((v >> 1) ^ (0 - (v & 1))); }
// Differences and sums that wrap, so that any two times have one.
inline std::int64_t difference(std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}
inline std::int64_t sum(std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

struct ByteWriter {
    std::string bytes;

    void number(std::uint64_t v) {
        for (; v >= 0x80; v >>= 7) bytes.push_back(static_cast<char>(v | 0x80));
        bytes.push_back(static_cast<char>(v));
    }
    void integer(std::int64_t v) { number(zigzag(v)); }
    void text(std::string_view s) {
        number(s.size());
        bytes += s;
    }
    void fixed(std::uint64_t v, int width) {
        for (int i = 0; i < width; ++i) bytes.push_back(static_cast<char>(v >> (8 * i)));
    }
    void real(double v) { fixed(std::bit_cast<std::uint64_t>(v), 8); }
};

class ByteReader {
  public:
    ByteReader() = default;
    explicit ByteReader(std::string_view bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

    std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }

    std::uint64_t number() {
        if (at_ != end_ && static_cast<signed char>(*at_) >= 0) return static_cast<std::uint64_t>(*at_++);
        return long_number();
    }
    std::int64_t integer() { return unzigzag(number()); }
    std::int64_t integer_in(std::int64_t lowest, std::int64_t highest, const char* what) {
        const std::int64_t v = integer();
        if (v < lowest || v > highest) throw std::runtime_error(std::string(what) + " " + std::to_string(v) + " is out of range");
        return v;
    }
    // The number of items that follow, each of at least `bytes` bytes.
    std::size_t count(const char* what, std::size_t bytes_each = 1) {
        const std::uint64_t n = number();
        if (n > left() / bytes_each)
            throw std::runtime_error("claims " + std::to_string(n) + " " + what + " in " + std::to_string(left()) + " bytes");
        return static_cast<std::size_t>(n);
    }
    std::string_view text() { return take(count("characters")); }
    std::uint64_t fixed(int width) {
        const std::string_view b = take(static_cast<std::size_t>(width));
        std::uint64_t v = 0;
        for (std::size_t i = b.size(); i-- > 0;) v = v << 8 | static_cast<unsigned char>(b[i]);
        return v;
    }
    double real() { return std::bit_cast<double>(fixed(8)); }
    void expect_end(const char* what) const {
        if (at_ != end_) throw std::runtime_error(std::to_string(left()) + " bytes too many in " + what);
    }

  private:
    std::uint64_t long_number() {
        std::uint64_t v = 0;
        for (int shift = 0; shift < 64; shift += 7) {
            if (at_ == end_) throw std::runtime_error("ends in the middle of a number");
            const auto byte = static_cast<unsigned char>(*at_++);
            v |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
            if (byte < 0x80) return v;
        }
        throw std::runtime_error("a number has too many digits");
    }
    std::string_view take(std::size_t n) {
        if (n > left()) throw std::runtime_error("ends too early");
        const std::string_view b(at_, n);
        at_ += n;
        return b;
    }

    const char* at_ = nullptr;
    const char* end_ = nullptr;
};

// A column of values that stay the same for a while: pairs of value and length of the run.
class RunWriter {
  public:
    void add(std::int64_t v) {
        if (run_ > 0 && v != value_) flush();
        value_ = v;
        ++run_;
    }
    std::string take() {
        if (run_ > 0) flush();
        return std::move(out_.bytes);
    }

  private:
    void flush() {
        out_.integer(value_);
        out_.number(run_);
        run_ = 0;
    }
    ByteWriter out_;
    std::int64_t value_ = 0;
    std::uint64_t run_ = 0;
};

class RunReader {
  public:
    RunReader() = default;
    RunReader(std::string_view bytes, std::int64_t lowest, std::int64_t highest, const char* what)
        : in_(bytes), lowest_(lowest), highest_(highest), what_(what) {}

    std::int64_t next() {
        if (run_ == 0) {
            value_ = in_.integer_in(lowest_, highest_, what_);
            run_ = in_.number();
            if (run_ == 0) throw std::runtime_error(std::string("an empty run of ") + what_);
        }
        --run_;
        return value_;
    }
    void expect_end() const {
        if (run_ > 0) throw std::runtime_error(std::string("a run too long of ") + what_);
        in_.expect_end(what_);
    }

  private:
    ByteReader in_;
    std::int64_t lowest_ = 0, highest_ = 0, value_ = 0;
    std::uint64_t run_ = 0;
    const char* what_ = "";
};

} // namespace orrery
