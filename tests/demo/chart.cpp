#include "demo/chart.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rowlock::demo {

std::string chart::frame(std::string const& heading) const {
  auto svg = fmt::format("<text class=\"heading\" x=\"12\" y=\"{}\">{}</text>\n", options_.top + 14, heading);
  auto const rows = static_cast<int>(options_.rows.size());
  auto const bottom = row_top(rows);
  for (int row = 0; row < rows; ++row)
    svg += fmt::format(R"(<text x="12" y="{0}">{1}</text>
<line class="grid" x1="{2}" x2="{3}" y1="{4}" y2="{4}"/>
)",
                       row_top(row) + 17, options_.rows[static_cast<std::size_t>(row)], left, width - right,
                       bar_top(row) + bar_height / 2);
  auto const decimals = options_.tick % 1'000'000'000 == 0 ? 0 : 2;
  for (std::int64_t t = 0; t <= options_.shown; t += options_.tick)
    svg += fmt::format(R"(<line class="grid" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/>
<text class="small" text-anchor="middle" x="{0:.1f}" y="{3}">{4:.{5}f} s</text>
)",
                       x(options_.from + t), row_top(0) - 2, bottom, bottom + 13,
                       static_cast<double>(t) / 1e9, decimals);
  return svg;
}

std::string chart::bar(int row, std::int64_t from, std::int64_t to, char const* style) const {
  if (to < options_.from || from > end()) return {};
  return fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\"/>\n", style,
                     x(from), bar_top(row), std::max(x(to) - x(from), 1.0), bar_height);
}

double chart::x(std::int64_t t) const {
  auto const inside = std::clamp(t, options_.from, end());
  return left + static_cast<double>(inside - options_.from) / static_cast<double>(options_.shown) *
                    (width - left - right);
}

std::string picture(std::string const& description, std::string const& title, std::string const& charts,
                    double legend_top, std::vector<legend_entry> const& legend) {
  auto svg = fmt::format(
      R"svg(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" width="{0}" height="{1}" font-family="sans-serif" font-size="13">
<title>{2}</title>
<style>
text {{ fill: #1f2328; }} .title {{ font-size: 17px; font-weight: bold; }} .heading {{ font-weight: bold; }} .small {{ font-size: 11px; fill: #59636e; }}
.grid {{ stroke: #d8dee4; }} .holds {{ fill: #6cb0f5; stroke: #0969da; stroke-width: 0.6; }} .stopped {{ fill: url(#hatch); stroke: #59636e; stroke-width: 0.6; }}
.kept {{ fill: #1a7f37; }} .lost {{ fill: #cf222e; stroke: #fff; }} .refused {{ fill: #fb8f24; stroke: #953800; }}
.server {{ fill: #b4e0be; stroke: #1a7f37; stroke-width: 0.6; }} .silent {{ fill: #fb8f24; stroke: #953800; stroke-width: 0.6; }} .waits {{ fill: #eaeef2; stroke: #59636e; stroke-width: 0.6; }}
.both {{ fill: #cf222e; fill-opacity: 0.35; stroke: #cf222e; }}
.note {{ font-size: 12px; paint-order: stroke; stroke: #fff; stroke-width: 4px; stroke-linejoin: round; }}
</style>
<defs><pattern id="hatch" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="7" height="7" fill="#cfe4fa"/><rect width="2" height="7" fill="#8c959f"/></pattern></defs>
<rect width="{0}" height="{1}" fill="#fff"/>
<text class="title" x="12" y="26">{3}</text>
{4})svg",
      chart::width, legend_top + 22, description, title, charts);
  for (auto const& [shape, text, x] : legend)
    svg += fmt::format(R"svg(<g transform="translate({0} {1})">{2}<text x="22" y="11">{3}</text></g>
)svg",
                       x, legend_top - 10, shape, text);
  return svg + "</svg>\n";
}

}  // namespace rowlock::demo
