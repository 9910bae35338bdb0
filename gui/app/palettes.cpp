#include "gui/app/palettes.hpp"

#include "gui/app/desktop_theme.hpp"

#include <QApplication>
#include <QSettings>
#include <QStringList>
#include <QStyle>
#include <QStyleFactory>

namespace orrery {
namespace {

struct Inks {
    QRgb window, base, alternate, text, faint, button, highlight, highlighted, link, tip, line;
};

// Text on its ground is at least 4.5:1 in both, faint text included.
constexpr Inks light{0xfff3f4f6, 0xffffffff, 0xfff7f8fa, 0xff16191d, 0xff666d76, 0xffe9ebee,
                     0xff0b63b6, 0xffffffff, 0xff0b57a4, 0xff24292f, 0xffc7ccd1};
constexpr Inks dark{0xff1b1e23, 0xff14161a, 0xff1a1d22, 0xffe6e8eb, 0xff9aa2ad, 0xff2a2e35,
                    0xff2f7fd0, 0xffffffff, 0xff6cb2ff, 0xff2f343c, 0xff3a4049};

} // namespace

QPalette palette_of(Theme theme) {
    const Inks& i = theme == Theme::dark ? dark : light;
    QPalette p;
    p.setColor(QPalette::Window, QColor::fromRgb(i.window));
    p.setColor(QPalette::WindowText, QColor::fromRgb(i.text));
    p.setColor(QPalette::Base, QColor::fromRgb(i.base));
    p.setColor(QPalette::AlternateBase, QColor::fromRgb(i.alternate));
    p.setColor(QPalette::Text, QColor::fromRgb(i.text));
    p.setColor(QPalette::PlaceholderText, QColor::fromRgb(i.faint));
    p.setColor(QPalette::Button, QColor::fromRgb(i.button));
    p.setColor(QPalette::ButtonText, QColor::fromRgb(i.text));
    p.setColor(QPalette::BrightText, QColor::fromRgb(0xffffffff));
    p.setColor(QPalette::Highlight, QColor::fromRgb(i.highlight));
    p.setColor(QPalette::HighlightedText, QColor::fromRgb(i.highlighted));
    p.setColor(QPalette::Link, QColor::fromRgb(i.link));
    p.setColor(QPalette::LinkVisited, QColor::fromRgb(i.link));
    p.setColor(QPalette::ToolTipBase, QColor::fromRgb(i.tip));
    p.setColor(QPalette::ToolTipText, QColor::fromRgb(0xfff4f5f6));
    p.setColor(QPalette::Mid, QColor::fromRgb(i.line));
    p.setColor(QPalette::Midlight, QColor::fromRgb(i.button));
    p.setColor(QPalette::Light, QColor::fromRgb(i.base));
    p.setColor(QPalette::Dark, QColor::fromRgb(i.line));
    p.setColor(QPalette::Shadow, QColor::fromRgb(0xff000000));
    for (QPalette::ColorRole role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText})
        p.setColor(QPalette::Disabled, role, QColor::fromRgb(i.faint));
    return p;
}

void apply_theme(Theme theme) {
    if (QApplication::style()->name() != QLatin1String("fusion")) QApplication::setStyle(QStyleFactory::create(QStringLiteral("Fusion")));
    QApplication::setPalette(palette_of(theme));
}

QStringList ThemeChoice::names() { return {QStringLiteral("system"), QStringLiteral("light"), QStringLiteral("dark")}; }

ThemeChoice::ThemeChoice(bool remember, const QString& given, QObject* parent)
    : QObject(parent), remember_(remember), name_(QStringLiteral("system")), desktop_(new DesktopTheme(this)) {
    const QString kept = remember ? QSettings().value(QStringLiteral("theme")).toString() : QString{};
    if (names().contains(kept)) name_ = kept;
    if (names().contains(given)) name_ = given;
    connect(desktop_, &DesktopTheme::changed, this, &ThemeChoice::apply);
    apply();
}

Theme ThemeChoice::shown() const {
    if (name_ == QLatin1String("dark")) return Theme::dark;
    return name_ == QLatin1String("light") ? Theme::light : desktop_->theme();
}

void ThemeChoice::choose(const QString& name) {
    if (!names().contains(name)) return;
    name_ = name;
    if (remember_) QSettings().setValue(QStringLiteral("theme"), name);
    apply();
    Q_EMIT changed();
}

void ThemeChoice::toggle() { choose(shown() == Theme::dark ? QStringLiteral("light") : QStringLiteral("dark")); }

void ThemeChoice::apply() {
    if (applied_ == shown()) return;
    applied_ = shown();
    apply_theme(shown());
}

} // namespace orrery
