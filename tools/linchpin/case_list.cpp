#include "case_list.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <stdexcept>
#include <string_view>

namespace linchpin::cli {

namespace {

[[noreturn]] void refuse(const std::string& option, std::string_view value, const std::string& expected) {
  throw std::invalid_argument(option + " is \"" + std::string(value) + "\", expected " + expected);
}

constexpr const char* forms = "name=first:last:count or name=a,b,c";
constexpr const char* random_forms = "name=least:most or name=a,b,c with --random";

template <class Number>
bool read(std::string_view text, Number& x) {
  if (text.starts_with("+")) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), x);
  return error == std::errc() && end == text.data() + text.size();
}

// "1/3" is how people say it.
bool read_fraction(std::string_view text, double& x) {
  const std::size_t slash = text.find('/');
  double under = 1;
  if (!read(text.substr(0, slash), x)) return false;
  if (slash != std::string_view::npos && !read(text.substr(slash + 1), under)) return false;
  x /= under;
  return std::isfinite(x);
}

std::vector<std::string_view> split(std::string_view text, char by) {
  std::vector<std::string_view> parts;
  for (std::size_t from = 0;;) {
    const std::size_t end = text.find(by, from);
    parts.push_back(text.substr(from, end - from));
    if (end == std::string_view::npos) return parts;
    from = end + 1;
  }
}

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> x, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * x[0], b = std::uint64_t{0xCD9E8D57} * x[2];
    x = {static_cast<std::uint32_t>(b >> 32) ^ x[1] ^ key[0], static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ x[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return x;
}

CaseList::CaseList(const std::vector<std::string>& sets, const std::optional<Random>& random) : random_(random) {
  const char* expected = random ? random_forms : forms;
  for (const std::string& set : sets) {
    const std::size_t equals = set.find('=');
    if (equals == 0 || equals == std::string::npos) refuse("--set", set, expected);
    names_.push_back(set.substr(0, equals));
    if (std::count(names_.begin(), names_.end(), names_.back()) > 1)
      refuse("--set", set, "each parameter once; \"" + names_.back() + "\" has values already");
    const std::string_view text = std::string_view(set).substr(equals + 1);
    Axis axis;
    if (text.find(':') == std::string_view::npos) {
      for (const std::string_view part : split(text, ',')) {
        axis.values.emplace_back();
        if (!read_fraction(part, axis.values.back())) refuse("--set", set, expected);
      }
    } else {
      const auto parts = split(text, ':');
      std::uint64_t count = 0;
      if (parts.size() != (random ? 2 : 3) || !read_fraction(parts[0], axis.least) ||
          !read_fraction(parts[1], axis.most) || (!random && (!read(parts[2], count) || count < 1 || count > most)))
        refuse("--set", set,
               random || parts.size() != 3
                   ? std::string(expected)
                   : expected + std::string("; count is a whole number from 1 to ") + std::to_string(most));
      for (std::uint64_t i = 0; i < count; ++i)  // both ends as they are given
        axis.values.push_back(i == 0           ? axis.least
                              : i + 1 == count ? axis.most
                                               : axis.least + (axis.most - axis.least) *
                                                                  (static_cast<double>(i) / double(count - 1)));
    }
    if (!random) {
      size_ *= axis.values.size();  // both factors are at most `most`
      if (size_ > most) refuse("--set", set, "at most " + std::to_string(most) + " cases in all");
    }
    axes_.push_back(std::move(axis));
  }
  if (!random) return;
  if (random->samples < 1 || random->samples > most)
    refuse("--random", std::to_string(random->samples), "a number of samples from 1 to " + std::to_string(most));
  size_ = random->samples;
}

std::vector<double> CaseList::values(std::uint64_t number) const {
  std::vector<double> out(axes_.size());
  if (!random_) {
    for (std::size_t i = axes_.size(); i-- > 0; number /= axes_[i].values.size())
      out[i] = axes_[i].values[number % axes_[i].values.size()];
    return out;
  }
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    const auto bits =
        philox({static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32),
                static_cast<std::uint32_t>(i), 0},
               {static_cast<std::uint32_t>(random_->seed), static_cast<std::uint32_t>(random_->seed >> 32)});
    const double u = static_cast<double>((std::uint64_t{bits[0]} << 32 | bits[1]) >> 11) * 0x1p-53;  // in [0, 1)
    const Axis& axis = axes_[i];
    out[i] = axis.values.empty() ? axis.least + (axis.most - axis.least) * u
                                 : axis.values[static_cast<std::size_t>(u * static_cast<double>(axis.values.size()))];
  }
  return out;
}

Shard::Shard(const std::string& text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos || !read(std::string_view(text).substr(0, slash), index) ||
      !read(std::string_view(text).substr(slash + 1), count) || count < 1 || index >= count)
    refuse("--shard", text, "i/n with i from 0 to n - 1");
}

}  // namespace linchpin::cli
