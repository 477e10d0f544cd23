// One SVG picture with axes, a legend and curves: what the laboratory draws with. Light background, no dependencies.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

/// Points (x, y); one that is not finite interrupts a line.
using Curve = std::vector<std::array<double, 2>>;

/// Curves are drawn in the order they are added, each with its name in the legend (none: no entry). Labels carry their
/// unit.
class Plot {
 public:
  Plot(std::string title, std::string x, std::string y)
      : title_(std::move(title)), x_{std::move(x)}, y_{std::move(y)} {}

  Plot& line(std::string name, Curve points) { return add(std::move(name), std::move(points), Style::line); }
  Plot& dashed(std::string name, Curve points) { return add(std::move(name), std::move(points), Style::dashed); }
  Plot& dots(std::string name, Curve points) { return add(std::move(name), std::move(points), Style::dots); }
  Plot& crosses(std::string name, Curve points) { return add(std::move(name), std::move(points), Style::cross); }
  /// The next curve has the colour of the one before: another account of the same.
  Plot& same() {
    same_ = true;
    return *this;
  }
  /// Shows this much of y, whatever the curves do.
  Plot& y_range(double low, double high) {
    y_.low = low, y_.high = high, y_.given = true;
    return *this;
  }

  /// Writes the file into the working directory and says so.
  void save(const std::string& file) {
    fit();
    std::ofstream out(file);
    out << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << width << ' ' << height
        << "\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#333\">\n<rect width=\"100%\" height=\"100%\" "
           "fill=\"#fff\"/>\n<clipPath id=\"area\"><rect x=\""
        << left << "\" y=\"" << top << "\" width=\"" << right - left << "\" height=\"" << bottom - top
        << "\"/></clipPath>\n";
    text(out, left, 26, "start", title_, " font-size=\"16\" font-weight=\"bold\"");
    axes(out);
    int named = 0;
    for (const Series& s : series_) draw(out, s, s.name.empty() ? named : named++);
    out << "</svg>\n";
    std::printf("  drawn: %s\n", out.good() ? file.c_str() : "nothing, because the file cannot be written");
  }

 private:
  enum class Style { line, dashed, dots, cross };
  struct Series {
    std::string name;
    Curve points;
    Style style;
    std::size_t color;
  };
  struct Axis {
    std::string label{};
    double low = std::numeric_limits<double>::infinity(), high = -low;
    bool given = false;

    double tick() const {  // 1, 2 or 5 times a power of ten, about six of them
      const double rough = (high - low) / 6, ten = std::pow(10.0, std::floor(std::log10(rough))), m = rough / ten;
      return ten * (m < 1.5 ? 1 : m < 3.5 ? 2 : m < 7.5 ? 5 : 10);
    }
  };
  static constexpr double width = 900, height = 460, left = 70, right = 640, top = 44, bottom = 404;

  Plot& add(std::string name, Curve points, Style style) {
    if (!same_ && !series_.empty()) ++color_;
    same_ = false;
    series_.push_back({std::move(name), std::move(points), style, color_});
    return *this;
  }
  void fit() {
    for (int k : {0, 1}) {
      Axis& axis = k == 0 ? x_ : y_;
      if (axis.given) continue;
      for (const Series& s : series_)
        for (const auto& p : s.points)
          if (std::isfinite(p[0]) && std::isfinite(p[1])) {
            axis.low = std::min(axis.low, p[static_cast<std::size_t>(k)]);
            axis.high = std::max(axis.high, p[static_cast<std::size_t>(k)]);
          }
      if (!(axis.high > axis.low)) axis.low -= 1, axis.high = axis.low + 2;
      const double air = 0.04 * (axis.high - axis.low);
      axis.low -= air, axis.high += air;
    }
  }
  double at_x(double x) const { return left + (x - x_.low) / (x_.high - x_.low) * (right - left); }
  double at_y(double y) const { return bottom - (y - y_.low) / (y_.high - y_.low) * (bottom - top); }

  static void text(std::ofstream& out, double x, double y, const char* anchor, const std::string& words,
                   const std::string& more = "") {
    out << "<text x=\"" << x << "\" y=\"" << y << "\" text-anchor=\"" << anchor << '"' << more << '>';
    for (const char c : words) switch (c) {
        case '<':
          out << "&lt;";
          break;
        case '&':
          out << "&amp;";
          break;
        default:
          out << c;
      }
    out << "</text>\n";
  }
  static std::string number(double value, double tick) {
    char digits[32];
    const int decimals = std::max(0, static_cast<int>(std::ceil(-std::log10(tick) - 1e-9)));
    std::snprintf(digits, sizeof digits, "%.*f", decimals, std::fabs(value) < 1e-9 * tick ? 0.0 : value);
    return digits;
  }
  void axes(std::ofstream& out) const {
    const auto rule = [&](double x1, double y1, double x2, double y2, const char* color) {
      out << "<line x1=\"" << x1 << "\" y1=\"" << y1 << "\" x2=\"" << x2 << "\" y2=\"" << y2 << "\" stroke=\"" << color
          << "\"/>\n";
    };
    for (double step = x_.tick(), x = std::ceil(x_.low / step) * step; x <= x_.high; x += step) {
      rule(at_x(x), top, at_x(x), bottom, std::fabs(x) < 1e-9 * step ? "#bbb" : "#eee");
      text(out, at_x(x), bottom + 18, "middle", number(x, step));
    }
    for (double step = y_.tick(), y = std::ceil(y_.low / step) * step; y <= y_.high; y += step) {
      rule(left, at_y(y), right, at_y(y), std::fabs(y) < 1e-9 * step ? "#bbb" : "#eee");
      text(out, left - 8, at_y(y) + 4, "end", number(y, step));
    }
    out << "<rect x=\"" << left << "\" y=\"" << top << "\" width=\"" << right - left << "\" height=\"" << bottom - top
        << "\" fill=\"none\" stroke=\"#888\"/>\n";
    text(out, (left + right) / 2, bottom + 42, "middle", x_.label);
    char turn[64];
    std::snprintf(turn, sizeof turn, " transform=\"rotate(-90 18 %g)\"", (top + bottom) / 2);
    text(out, 18, (top + bottom) / 2, "middle", y_.label, turn);
  }
  void draw(std::ofstream& out, const Series& s, int entry) const {
    // Told apart by the colour-blind (Okabe & Ito).
    static constexpr const char* colors[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000"};
    const std::string color = colors[s.color % std::size(colors)];
    const double key = top + 14 + 22 * static_cast<double>(entry);
    if (s.style == Style::cross) {
      const auto cross = [&](double x, double y) {
        out << "<path d=\"M" << x - 4 << ' ' << y - 4 << "l8 8m0 -8l-8 8\"/>\n";
      };
      out << "<g stroke=\"" << color << "\" stroke-width=\"1.5\"><g clip-path=\"url(#area)\">\n";
      for (const auto& p : s.points)
        if (std::isfinite(p[0]) && std::isfinite(p[1])) cross(at_x(p[0]), at_y(p[1]));
      out << "</g>\n";
      if (!s.name.empty()) cross(right + 28, key);
      out << "</g>\n";
    } else if (s.style == Style::dots) {
      out << "<g clip-path=\"url(#area)\" fill=\"#fff\" stroke=\"" << color << "\" stroke-width=\"1.5\">\n";
      for (const auto& p : s.points)
        if (std::isfinite(p[0]) && std::isfinite(p[1]))
          out << "<circle cx=\"" << at_x(p[0]) << "\" cy=\"" << at_y(p[1]) << "\" r=\"3\"/>\n";
      out << "</g>\n";
      if (!s.name.empty())
        out << "<circle cx=\"" << right + 28 << "\" cy=\"" << key << "\" r=\"3\" fill=\"#fff\" stroke=\"" << color
            << "\" stroke-width=\"1.5\"/>\n";
    } else {
      const std::string stroke = " fill=\"none\" stroke=\"" + color + "\" stroke-width=\"1.8\"" +
                                 (s.style == Style::dashed ? " stroke-dasharray=\"6 4\"" : "");
      out << "<path clip-path=\"url(#area)\"" << stroke << " d=\"";
      bool down = false;
      for (const auto& p : s.points) {
        const bool there = std::isfinite(p[0]) && std::isfinite(p[1]);
        if (there) out << (down ? 'L' : 'M') << at_x(p[0]) << ' ' << at_y(p[1]);
        down = there;
      }
      out << "\"/>\n";
      if (!s.name.empty()) out << "<path" << stroke << " d=\"M" << right + 14 << ' ' << key << "h28\"/>\n";
    }
    if (!s.name.empty()) text(out, right + 50, key + 4, "start", s.name);
  }

  std::string title_;
  Axis x_, y_;
  std::vector<Series> series_;
  std::size_t color_ = 0;
  bool same_ = false;
};
