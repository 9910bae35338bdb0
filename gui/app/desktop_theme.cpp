#include "gui/app/desktop_theme.hpp"

#include <QGuiApplication>
#include <QPalette>

#include <utility>

#ifdef ORRERY_DBUS
#include <QDBusConnection>
#include <QDBusPendingCallWatcher>
#include <QDBusVariant>
#endif

namespace orrery {

DesktopTheme::DesktopTheme(QObject* parent)
    : QObject(parent), theme_(QGuiApplication::palette().color(QPalette::Window).lightness() < 128 ? Theme::dark : Theme::light) {
#ifdef ORRERY_DBUS
    ask();
#endif
}

#ifdef ORRERY_DBUS

namespace {

const QString& space() {
    static const QString text = QStringLiteral("org.freedesktop.appearance");
    return text;
}
const QString& key() {
    static const QString text = QStringLiteral("color-scheme");
    return text;
}

} // namespace

void DesktopTheme::ask() {
    QDBusConnection bus = QDBusConnection::sessionBus();
    if (!bus.isConnected()) return;
    const QString service = QStringLiteral("org.freedesktop.portal.Desktop"), path = QStringLiteral("/org/freedesktop/portal/desktop"),
                  settings = QStringLiteral("org.freedesktop.portal.Settings");
    bus.connect(service, path, settings, QStringLiteral("SettingChanged"), this, SLOT(settingChanged(QDBusMessage)));
    QDBusMessage read = QDBusMessage::createMethodCall(service, path, settings, QStringLiteral("Read"));
    read << space() << key();
    auto* watcher = new QDBusPendingCallWatcher(bus.asyncCall(read), this);
    connect(watcher, &QDBusPendingCallWatcher::finished, this, [this, watcher] {
        const QDBusMessage reply = watcher->reply();
        watcher->deleteLater();
        if (reply.type() == QDBusMessage::ReplyMessage && !reply.arguments().isEmpty()) take(reply.arguments().first());
    });
}

void DesktopTheme::settingChanged(const QDBusMessage& message) {
    const QVariantList said = message.arguments();
    if (said.size() == 3 && said[0].toString() == space() && said[1].toString() == key()) take(said[2]);
}

// 1 prefers dark, 2 light, 0 says nothing. Read wraps its answer once more than the signal does.
void DesktopTheme::take(QVariant value) {
    while (value.userType() == qMetaTypeId<QDBusVariant>()) value = value.value<QDBusVariant>().variant();
    const uint said = value.toUInt();
    if (said != 1 && said != 2) return;
    const Theme now = said == 1 ? Theme::dark : Theme::light;
    if (std::exchange(theme_, now) != now) Q_EMIT changed();
}

#endif

} // namespace orrery
